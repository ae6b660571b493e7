"""Ahead-of-time compilation of programs into bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vyre.app.services import installed
from vyre.domain.arguments import expect
from vyre.domain.errors import BackendUnavailable
from vyre.domain.float_mode import in_default_mode
from vyre.domain.frozen import frozen
from vyre.ports.aot import AotRegistry
from vyre.ports.backend import BackendCatalog
from vyre.ports.bundles import AotEmitter, AotTargetId

if TYPE_CHECKING:
    from vyre.app.dialects.lowered import LoweredProgram, LoweringChoice
    from vyre.domain.ir.program import Program, ProgramLike
    from vyre.domain.names import Grid
    from vyre.domain.specialization import SpecInput
    from vyre.ports.bundles import BundleSupport

BUNDLE_SUFFIX: Final = ".vyrz"


@frozen
class WrittenBundle:
    """A bundle on disk.

    ``digest`` (of the file; ``load_bundle`` compares it with ``expect``) and ``program`` are hexadecimal digests;
    ``nbytes`` is the size of the file.  ``members`` names the images in it.  ``assembler`` is the version of the
    assembler that made the machine code, None if the bundle holds text only.  ``made`` describes how the code was made
    and which tool was missing.  ``lowerings`` says for each target which operations use a lowering, and why.
    """

    path: Path
    digest: str
    program: str
    nbytes: int
    members: tuple[str, ...]
    assembler: str | None
    made: str
    lowerings: Mapping[str, tuple[LoweringChoice, ...]] = field(default_factory=dict)


def aot_emitters(*, machine_code: bool = True) -> AotRegistry:
    """Returns the emitters of this installation; ``add`` registers further ones.

    ``machine_code``: whether they use the assembler where one is installed; without one they emit text only.
    """
    expect("machine_code", machine_code, bool, "True or False")
    return emitters_of(installed(), machine_code=machine_code)


def emitters_of(catalog: BackendCatalog, *, machine_code: bool) -> AotRegistry:
    """Returns the emitters of the backends of ``catalog``; of several for one target, the one of the first by
    precedence.
    """
    emitters: dict[AotTargetId, AotEmitter] = {}
    lacks: dict[str, None] = {}
    for facet in _facets(catalog):
        own = facet.emitters(machine_code=machine_code)
        for emitter in own.emitters:
            emitters.setdefault(emitter.target, emitter)
        if own.lacks:
            lacks[own.lacks] = None
    return AotRegistry(emitters.values(), tuple(lacks))


def default_targets(catalog: BackendCatalog) -> tuple[str, ...]:
    """Returns the targets for a caller who names none.  Raises ``BackendUnavailable`` if no backend builds bundles."""
    for facet in _facets(catalog):
        return (facet.default_target,)
    raise BackendUnavailable("no backend that builds bundles is installed")


def _facets(catalog: BackendCatalog) -> Iterator[BundleSupport]:
    for registration in catalog.by_precedence():
        if registration.bundles is not None:
            yield registration.bundles()


@in_default_mode
def build_bundle(
    program: ProgramLike,
    path: Path | str,
    *,
    targets: Sequence[str] | None = None,
    spec: Mapping[str, SpecInput] | None = None,
    workgroup: Grid | None = None,
    emitters: AotRegistry | None = None,
    optimize: bool = True,
) -> WrittenBundle:
    """Compiles ``program`` for every target and writes the bundle to ``path``; it is on disk when this returns.

    ``targets`` are names such as ``sm_75``, the default, whose PTX runs on every NVIDIA GPU that vyre supports.  The
    values of ``spec`` and ``workgroup`` are compiled into the code.  ``emitters`` defaults to ``aot_emitters()``.
    ``optimize``: whether lowerings of operations may be used, and emitters may run the optimizer, as for a session; no
    result depends on it.

    Raises ``InvalidProgram``, ``InvalidConfig``, ``UnsupportedFeature`` for a target without an emitter or a feature
    that the target lacks, ``KernelCompileFailed``, and ``UnreadableFile`` if the file cannot be written.
    """
    from vyre.adapters.bundles import builder, files
    from vyre.app.verdicts import with_names_resolved
    from vyre.domain.arguments import expect, items_of, path_of
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program, program_of
    from vyre.domain.specialization import resolve_spec
    from vyre.domain.validation.validator import without_calls

    target = path_of("path", path)
    meant: Program = program_of(program)
    expect("program", meant, Program, "a Program")
    catalog = installed()
    names = default_targets(catalog) if targets is None else tuple(items_of("targets", targets))
    for name in names:
        expect("a target", name, str, "a name such as sm_75")
    expect("emitters", emitters, (AotRegistry, type(None)), "an AotRegistry, or None")
    expect("optimize", optimize, bool, "True or False")
    constants = None if spec is None else resolve_spec(meant, spec)
    config = DispatchConfig(workgroup=workgroup, spec=constants, optimize=optimize)
    registry = aot_emitters() if emitters is None else emitters
    meant = with_names_resolved(meant)
    lowered = {name: _lowered(catalog, name, meant, optimize) for name in names} if meant.definitions else {}
    forms = {name: each.program for name, each in lowered.items()}
    bundle = builder.build_bundle(without_calls(meant), names, registry, config, forms)
    digest = files.write_bundle(target, bundle)
    assemblers = [build.assembler for build in bundle.builds if build.assembler is not None]
    origins = "; ".join(dict.fromkeys(build.origin for build in bundle.builds))
    return WrittenBundle(
        target,
        digest.hex(),
        bundle.program.hex(),
        target.stat().st_size,
        bundle.members,
        "{}.{}".format(*max(assemblers)) if assemblers else None,
        ": ".join([origins, *registry.lacks]),
        {name: each.choices for name, each in lowered.items() if each.choices},
    )


def _lowered(catalog: BackendCatalog, target: str, program: Program, wanted: bool) -> LoweredProgram:
    """Returns the program that the code for a target is made of; ``wanted`` is whether lowerings may be used.

    No lowering is known of a target without a backend.
    """
    from vyre.app.dialects.lowered import LoweredProgram
    from vyre.app.dialects.lowerings import lowered_ahead
    from vyre.domain.validation.validator import without_calls

    for registration in catalog.by_precedence():
        if registration.bundles is not None:
            own = registration.bundles().emitters(machine_code=False)
            if target in {emitter.target for emitter in own.emitters}:
                return lowered_ahead(registration, program, as_written=not wanted)
    return LoweredProgram(without_calls(program), ())
