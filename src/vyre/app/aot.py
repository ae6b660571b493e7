"""Ahead-of-time compilation of programs into bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vyre.app.services import installed
from vyre.domain.arguments import expect
from vyre.domain.errors import BackendUnavailable, InvalidConfig
from vyre.domain.float_mode import in_default_mode
from vyre.domain.frozen import frozen
from vyre.ports.aot import AotRegistry
from vyre.ports.backend import BackendCatalog
from vyre.ports.bundles import AotEmitter, AotTargetId, BundleSupport

if TYPE_CHECKING:
    from vyre.app.bundle import LoadedBundle
    from vyre.app.dialects.lowered import LoweredProgram, LoweringChoice
    from vyre.domain.ir.program import Program, ProgramLike
    from vyre.domain.names import Grid
    from vyre.domain.specialization import SpecInput

BUNDLE_SUFFIX: Final = ".vyrz"


@frozen
class WrittenBundle:
    """A bundle on disk.

    ``digest`` (of the file; ``load_bundle`` compares it with ``expect``) and those of ``programs``, by the names of
    their entry points, are hexadecimal; ``nbytes`` is the size of the file.  ``members`` names the code in it: target
    and kind.  ``assembler`` is the version of the assembler that made machine code of PTX, None if there was none.
    ``made`` describes how the code was made and which tool was missing.  ``lowerings`` says for each target which
    operations use a lowering, and why.
    """

    path: Path
    digest: str
    programs: Mapping[str, str]
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
    groups: dict[str, tuple[AotTargetId, ...]] = {}
    for facet in _facets(catalog):
        own = facet.emitters(machine_code=machine_code)
        for emitter in own.emitters:
            emitters.setdefault(emitter.target, emitter)
        for group, targets in own.groups.items():
            groups.setdefault(group, targets)
        if own.lacks:
            lacks[own.lacks] = None
    return AotRegistry(emitters.values(), tuple(lacks), groups)


def default_targets(catalog: BackendCatalog, registry: AotRegistry) -> tuple[str, ...]:
    """Returns the targets for a caller who names none: the default of each backend whose emitters can run here.

    Raises ``BackendUnavailable`` if there is none.
    """
    usual = dict.fromkeys(facet.default_target for facet in _facets(catalog))
    able = tuple(name for name in usual if name in registry.groups or name in registry.targets)
    if not able:
        raise BackendUnavailable("no backend that builds bundles is installed")
    return able


def _facets(catalog: BackendCatalog) -> Iterator[BundleSupport]:
    for registration in catalog.by_precedence():
        if registration.bundles is not None:
            yield registration.bundles()


@in_default_mode
def build_bundle(
    program: ProgramLike | Mapping[str, ProgramLike],
    path: Path | str,
    *,
    targets: Sequence[str] | None = None,
    spec: Mapping[str, SpecInput] | None = None,
    workgroup: Grid | None = None,
    emitters: AotRegistry | None = None,
    optimize: bool = True,
) -> WrittenBundle:
    """Compiles programs for every target and writes the bundle to ``path``; it is on disk when this returns.

    ``program`` is one program, whose name is that of its entry point (``main`` if it has none), or several by the names
    of their entry points.  ``targets`` are ``cpu``, which stands for all levels of this machine's architecture, its
    levels such as ``cpu-x86_64-avx2``, ``cuda``, which stands for PTX that runs on every NVIDIA GPU that vyre supports,
    and architectures such as ``sm_90``; None: ``cuda``, and ``cpu`` where its compiler is installed.  The values of
    ``spec`` and ``workgroup`` become part of each program.  ``emitters`` defaults to ``aot_emitters()``.  ``optimize``:
    whether lowerings of operations may be used, and emitters may run the optimizer, as for a session; no result depends
    on it.

    Raises ``InvalidProgram``, ``InvalidConfig``, ``UnsupportedFeature`` for a target without an emitter or a feature
    that the target lacks, ``KernelCompileFailed``, and ``UnreadableFile`` if the file cannot be written.
    """
    from vyre.adapters.bundles import builder, files
    from vyre.domain.arguments import expect, items_of, path_of
    from vyre.domain.dispatch import DispatchConfig

    file = path_of("path", path)
    programs = _entries(program)
    expect("emitters", emitters, (AotRegistry, type(None)), "an AotRegistry, or None")
    expect("optimize", optimize, bool, "True or False")
    catalog = installed()
    registry = aot_emitters() if emitters is None else emitters
    names = default_targets(catalog, registry) if targets is None else tuple(items_of("targets", targets))
    for name in names:
        expect("a target", name, str, "a name such as sm_75")
    config = DispatchConfig(workgroup=workgroup, spec=spec, optimize=optimize)
    choices: dict[str, tuple[LoweringChoice, ...]] = {}

    def form(target: str, each: Program) -> Program:
        lowered = _lowered(catalog, target, each, optimize)
        choices[target] = choices.get(target, ()) + lowered.choices
        return lowered.program

    built = builder.build_bundle(programs, names, registry, config, form)
    digest = files.write_bundle(file, built.bundle)
    assemblers = [build.assembler for build in built.builds if build.assembler is not None]
    origins = "; ".join(dict.fromkeys(build.origin for build in built.builds))
    return WrittenBundle(
        file,
        digest.hex(),
        {name: each.digest.hex() for name, each in built.bundle.entries.items()},
        file.stat().st_size,
        tuple(dict.fromkeys(code.name for code in built.bundle.codes)),
        "{}.{}".format(*max(assemblers)) if assemblers else None,
        ": ".join([origins, *registry.lacks]),
        {target: each for target, each in choices.items() if each},
    )


def write_c(bundle: LoadedBundle, folder: Path | str, *, name: str = "kernels") -> tuple[Path, ...]:
    """Writes a header, a source in C and objects, by which a program in C calls the entry points of a loaded bundle
    without Python, and returns their paths.

    ``folder`` has to exist.  The files are ``name.h``, ``name.c`` and an object for each entry point and level of the
    processor; the functions have the names of the entry points and take pointers, numbers of elements and the grid.

    Raises ``InvalidConfig`` for names that are none in C, ``UnsupportedFeature`` where no entry point has code that C
    can call, or one has a grid loop, and ``UnreadableFile`` for no folder or a file that cannot be written.
    """
    from vyre.adapters.files import is_directory, write_files
    from vyre.app.bundle import LoadedBundle
    from vyre.domain.arguments import path_of
    from vyre.domain.errors import UnreadableFile, UnsupportedFeature

    expect("bundle", bundle, LoadedBundle, "a bundle that load_bundle() returned")
    expect("name", name, str, "a name without a suffix")
    place = path_of("folder", folder)
    if not is_directory(place):
        raise UnreadableFile(f"{place} is no folder", fix="make it first.")
    for facet in _facets(installed()):
        files = {place / file: content for file, content in facet.c_files(name, bundle).items()}
        if files:
            write_files(files)
            return tuple(files)
    raise UnsupportedFeature(
        feature="calling this bundle from C", backend="aot", fix="build it for the processor of this machine."
    )


def _entries(programs: ProgramLike | Mapping[str, ProgramLike]) -> dict[str, Program]:
    """Returns the programs by the names of their entry points.  Raises ``InvalidConfig``."""
    from vyre.app.verdicts import with_names_resolved
    from vyre.domain.ir.program import Program, program_of

    named: dict[str, Program] = {}
    if isinstance(programs, Mapping):
        if not programs:
            raise InvalidConfig("the bundle has no entry point", fix="give at least one program.")
        named = {name: program_of(each) for name, each in programs.items()}
    else:
        alone: Program = program_of(programs)
        named = {getattr(alone, "name", None) or "main": alone}
    for name, program in named.items():
        expect("the name of an entry point", name, str, "a text")
        expect("program", program, Program, "a Program, or a mapping of names to programs")
    return {name: with_names_resolved(program) for name, program in named.items()}


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
