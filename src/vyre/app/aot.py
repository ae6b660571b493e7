"""Ahead-of-time compilation of programs into bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.adapters.cuda.aot.emitters import AotRegistry
    from vyre.domain.ir.program import Program
    from vyre.domain.names import Grid
    from vyre.domain.specialization import SpecInput

BUNDLE_SUFFIX: Final = ".vyrz"
DEFAULT_TARGETS: Final = ("sm_75",)
"""PTX for sm_75 runs on every device that vyre supports."""


@dataclass(frozen=True, slots=True)
class WrittenBundle:
    """A bundle on disk.

    ``digest`` (of the file; ``load_bundle`` compares it with ``expect``) and ``program`` are hexadecimal digests;
    ``nbytes`` is the size of the file.  ``members`` names the images in it.  ``assembler`` is the version of the
    assembler that made the machine code, None if the bundle holds PTX text only.
    """

    path: Path
    digest: str
    program: str
    nbytes: int
    members: tuple[str, ...]
    assembler: str | None


def aot_emitters(*, machine_code: bool = True) -> AotRegistry:
    """Returns the emitters of this installation; ``add`` registers further ones.

    ``machine_code``: whether they use the assembler where one is installed; without one they emit PTX text only.
    """
    from vyre.adapters.cuda.aot.emitters import cuda_emitters
    from vyre.adapters.cuda.assembler import newest_assembler

    return cuda_emitters(newest_assembler() if machine_code else None)


def build_bundle(
    program: Program,
    path: Path | str,
    *,
    targets: Sequence[str] = DEFAULT_TARGETS,
    spec: Mapping[str, SpecInput] | None = None,
    workgroup: Grid | None = None,
    emitters: AotRegistry | None = None,
) -> WrittenBundle:
    """Compile ``program`` for every target and write the bundle to ``path``; it is on disk when this returns.

    The values of ``spec`` and ``workgroup`` are compiled into the code.  ``emitters`` defaults to ``aot_emitters()``.
    Raises ``InvalidProgram``, ``InvalidConfig``, ``UnsupportedFeature`` for a target without an emitter or a feature
    that the target lacks, ``KernelCompileFailed``, and ``UnreadableFile`` if the file cannot be written.
    """
    from vyre.adapters.cuda.aot import builder, files
    from vyre.adapters.cuda.aot.bundle import MemberKind
    from vyre.adapters.cuda.aot.emitters import AotRegistry
    from vyre.domain.arguments import expect, items_of, path_of
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.domain.specialization import resolve_spec

    target = path_of("path", path)
    expect("program", program, Program, "a Program")
    names = tuple(items_of("targets", targets))
    for name in names:
        expect("a target", name, str, "a name such as sm_75")
    expect("emitters", emitters, (AotRegistry, type(None)), "an AotRegistry, or None")
    config = DispatchConfig(workgroup=workgroup, spec=None if spec is None else resolve_spec(program, spec))
    bundle = builder.build_bundle(program, names, aot_emitters() if emitters is None else emitters, config)
    digest = files.write_bundle(target, bundle)
    made = [m.version for build in bundle.builds for m in build.members if m.kind is MemberKind.CUBIN]
    return WrittenBundle(
        target,
        digest.hex(),
        bundle.program.hex(),
        target.stat().st_size,
        bundle.members,
        "{}.{}".format(*max(made)) if made else None,
    )
