"""Emission of kernels as code, for users who launch them without this library."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from vyre.app.services import installed
from vyre.domain.arguments import expect, items_of
from vyre.domain.errors import BackendUnavailable, InvalidConfig
from vyre.domain.float_mode import in_default_mode
from vyre.domain.printable import shown
from vyre.domain.recursion import telling_of_depth
from vyre.ports.backend import BackendCatalog, BackendRegistration
from vyre.ports.emission import GRID_SYNC_MODES, NATIVE, CodeEmission, EmissionOptions, EmittedModule

if TYPE_CHECKING:
    from vyre.app.dialects.lowered import LoweredProgram, LoweringChoice
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.ir.program import Program, ProgramLike
    from vyre.domain.optimize.passes import PassResult
    from vyre.domain.specialization import SpecInput


@telling_of_depth
@in_default_mode
def emit(
    program: ProgramLike,
    *,
    target: str | None = None,
    assume: Collection[str] = (),
    grid_sync: str = NATIVE,
    spec: Mapping[str, SpecInput] | None = None,
    form: str | None = None,
    optimize: bool = True,
    locations: bool = False,
) -> EmittedModule:
    """Returns the code of a program for ``target``, with everything that a launcher must know.

    ``target``: such as ``sm_90``, which gives PTX and is the default, or ``cpu`` for the processor of this machine.
    ``form``: the language of the code, such as ``llvm`` or ``asm`` for ``cpu``; None for the usual one.  ``to_json`` of
    the result returns the documented form.  Needs neither a driver nor a device.  The kernel is valid for every grid,
    and for naturally aligned buffers that may overlap; ``assume`` (``aligned16``, ``noalias``, ``exact-grid``) promises
    more.  A program with grid barriers becomes one cooperative kernel, or with ``grid_sync="split"`` several kernels to
    be launched in order on one stream.  ``optimize``: whether the optimizer may prepare the program, as it does for a
    session (``optimizer_results`` says what it does), and lowerings of operations may be used (``lowering_choices``).
    ``locations``: whether PTX names the lines of the user's source (``.file``, ``.loc``); code for ``cpu`` always does.

    Raises ``InvalidProgram``, ``UnsupportedFeature`` for features that the target lacks, ``InvalidConfig`` for an
    unknown target or option, and ``BackendUnavailable`` for assembly without the compiler that writes it.
    """
    from vyre.adapters.optimizing import optimized
    from vyre.domain.ir.program import Program, program_of
    from vyre.domain.specialization import spec_literals

    meant: Program = program_of(program)
    expect("program", meant, Program, "a Program")
    chosen = choose_emission(installed(), target, assume, grid_sync, form, locations=locations)
    meant = _lowered(chosen.registration, meant, optimize).program
    literals = spec_literals(meant, spec)
    passes = _passes(chosen.emission, meant, optimize)
    options = replace(chosen.options, passes=passes)
    return chosen.emission.emit(optimized(meant, literals, passes).program, options, literals)


def optimizer_results(
    program: Program, *, target: str | None = None, spec: Mapping[str, SpecInput] | None = None
) -> tuple[PassResult, ...]:
    """Returns what each pass of the optimizer does to a valid program before ``emit`` writes it; raises as ``emit``."""
    from vyre.adapters.optimizing import optimized
    from vyre.domain.specialization import spec_literals

    chosen = choose_emission(installed(), target)
    program = _lowered(chosen.registration, program, wanted=True).program
    passes = _passes(chosen.emission, program, wanted=True)
    return optimized(program, spec_literals(program, spec), passes).results


def lowering_choices(
    program: Program, *, target: str | None = None, optimize: bool = True
) -> tuple[LoweringChoice, ...]:
    """Returns whether ``emit`` uses the lowering of each operation that a valid program calls; raises as ``emit``."""
    return _lowered(choose_emission(installed(), target).registration, program, optimize).choices


def _lowered(registration: BackendRegistration, program: Program, wanted: bool) -> LoweredProgram:
    """Returns the program with its calls replaced; ``wanted`` is whether lowerings may be used."""
    expect("optimize", wanted, bool, "True or False")
    from vyre.app.dialects.lowerings import lowered_ahead
    from vyre.app.verdicts import with_names_resolved

    return lowered_ahead(registration, with_names_resolved(program), as_written=not wanted)


def _passes(emission: CodeEmission, program: Program, wanted: bool) -> str:
    """Returns the passes that prepare a program; none for an invalid one, which the emission refuses."""
    expect("optimize", wanted, bool, "True or False")
    from vyre.adapters.optimizing import passes_for
    from vyre.domain.dispatch import DEFAULT_CONFIG
    from vyre.domain.validation.validator import check_rules

    if emission.optimizes is None or not check_rules(program).ok:
        return ""
    return passes_for(program, DEFAULT_CONFIG, emission.optimizes, wanted, None)


def emission_keys(
    program: ProgramLike,
    *,
    target: str | None = None,
    assume: Collection[str] = (),
    grid_sync: str = NATIVE,
    spec: Mapping[str, SpecInput] | None = None,
    form: str | None = None,
    optimize: bool = True,
    locations: bool = False,
) -> tuple[ArtifactKey, ...]:
    """Returns the keys under which a cache stores the code of a program, for the arguments of ``emit``; at least one.

    Raises ``InvalidProgram`` if a name in the program does not resolve, and ``InvalidConfig`` as ``emit`` does.
    """
    from vyre.domain.ir.program import Program, program_of
    from vyre.domain.specialization import complete_spec

    meant: Program = program_of(program)
    expect("program", meant, Program, "a Program")
    chosen = choose_emission(installed(), target, assume, grid_sync, form, locations=locations)
    meant = _lowered(chosen.registration, meant, optimize).program
    options = replace(chosen.options, passes=_passes(chosen.emission, meant, optimize))
    return chosen.emission.keys(meant, options, complete_spec(meant, spec))


class ChosenEmission(NamedTuple):
    """A backend's code emission, with the options that it takes, and the registration that offers it."""

    emission: CodeEmission
    options: EmissionOptions
    registration: BackendRegistration


def choose_emission(
    catalog: BackendCatalog,
    target: str | None,
    assume: Collection[str] = (),
    grid_sync: str = NATIVE,
    form: str | None = None,
    *,
    locations: bool = False,
) -> ChosenEmission:
    """Returns the first backend of ``catalog``, by precedence, that knows ``target``, and the options in its form.

    ``target``: None for the default of the first backend that emits code.  Raises ``InvalidConfig`` for an unknown
    target or option, and ``BackendUnavailable`` where no backend emits code.
    """
    expect("target", target, (str, type(None)), "a name such as sm_90, or None")
    expect("form", form, (str, type(None)), "a name such as ptx, or None")
    expect("locations", locations, bool, "True or False")
    expect("grid_sync", grid_sync, str, f"one of {', '.join(GRID_SYNC_MODES)}")
    names = tuple(items_of("assume", assume))
    registration, emission, target = _knowing(catalog, target)
    for name in names:
        if name not in emission.assumptions:
            raise InvalidConfig(
                f"unknown assumption {shown(name)}", fix=f"use some of {', '.join(emission.assumptions)}."
            )
    if grid_sync not in GRID_SYNC_MODES:
        raise InvalidConfig(f"grid_sync={grid_sync!r} is no mode", fix=f"use one of {', '.join(GRID_SYNC_MODES)}.")
    if form is not None and form not in emission.forms:
        raise InvalidConfig(
            f"code for {target} cannot be written as {shown(form)}", fix=f"use one of {', '.join(emission.forms)}."
        )
    options = EmissionOptions(
        target=target,
        assume=frozenset(names),
        grid_sync=grid_sync,
        form=emission.forms[0] if form is None else form,
        locations=locations,
    )
    return ChosenEmission(emission, options, registration)


def _knowing(catalog: BackendCatalog, target: str | None) -> tuple[BackendRegistration, CodeEmission, str]:
    known: dict[str, None] = {}
    for registration in catalog.by_precedence():
        if registration.emission is None:
            continue
        emission = registration.emission()
        if target is None:
            return registration, emission, emission.default_target
        if target in emission.targets:
            return registration, emission, target
        known |= dict.fromkeys(emission.targets)
    if not known:
        raise BackendUnavailable(
            "no backend that emits code is installed", fix="install one, or repair it (`vyre doctor`)."
        )
    raise InvalidConfig(f"unknown target {target!r}", fix=f"use one of {', '.join(known)}.")
