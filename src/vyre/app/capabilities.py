"""The offers of backends, and what they lack for a program: nothing here compiles or opens a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vyre.app.preparing import merged_for
from vyre.app.services import installed
from vyre.app.verdicts import valid_program
from vyre.domain.device import DeviceProfile, claimed_features
from vyre.domain.errors import BackendError
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.operators import operators_at
from vyre.domain.ir.program import Program, ProgramLike, ProgramSource
from vyre.domain.ir.types import ScalarType
from vyre.domain.missing import Missing, missing_from
from vyre.domain.names import OpId
from vyre.domain.op_ids import ALL_OPS

if TYPE_CHECKING:
    from vyre.app.kernels.launches import KernelSource
    from vyre.app.pipeline import Inputs
    from vyre.app.session_core import SessionCore
    from vyre.app.shorthand import Keywords
    from vyre.domain.dispatch import DispatchConfig
    from vyre.ports.backend import BackendCatalog, BackendRegistration


def missing_on(
    session: SessionCore, program: ProgramLike, inputs: Inputs, config: DispatchConfig | None, shorthand: Keywords
) -> tuple[Missing, ...]:
    """Implements ``Session.missing``."""
    session._lease.check_open()
    left_out = isinstance(inputs, tuple | list | dict) and not inputs
    if type(program) is not Program and isinstance(program, ProgramSource):
        from vyre.app.kernels.launches import launch_of, program_of

        source = cast("KernelSource", program)
        if left_out:
            program, config, shorthand = program_of(source, config, shorthand)
        else:
            launch = launch_of(source, inputs, config, shorthand)
            program, config, shorthand, inputs = launch.program, launch.config, launch.shorthand, launch.inputs
    merged = merged_for(program, config, **cast("dict[str, Any]", shorthand))
    backend = (session._race_checks.lease if merged.race_check else session._lease).backend
    lowered = session._lowered(valid_program(program), merged).program
    if merged.pad_grid:
        from vyre.domain.padding import masked

        lowered = masked(lowered, merged)
    input_nbytes = None if left_out else _lengths(lowered, inputs)
    return missing_from(lowered, backend.profile, backend.supported_ops, merged, input_nbytes)


def _lengths(program: Program, inputs: Inputs) -> tuple[int, ...]:
    """Returns the length of each input in bytes; resident memory may be longer than the program needs."""
    from vyre.app.host_arrays import HostInputs
    from vyre.app.resident import ResidentArray

    bound = HostInputs(program)
    lengths: list[int] = []
    for buffer, value in zip(bound.buffers, bound.values(inputs), strict=True):
        if isinstance(value, ResidentArray):
            size = element_of(buffer).size
            lengths.append(buffer.static_nbytes or value.buffer.nbytes // size * size)
        else:
            lengths.append(bound.view(buffer.name, value).nbytes)
    return tuple(lengths)


class Offer(NamedTuple):
    """The offer of a backend on this machine: its profile, operations and version; or ``why`` it offers nothing."""

    profile: DeviceProfile | None = None
    supported_ops: frozenset[OpId] = frozenset()
    version: str = ""
    why: str = ""


def offer_of(registration: BackendRegistration) -> Offer:
    """Returns what a registered backend offers on this machine; no device is opened."""
    try:
        backend = registration.make()
    except BackendError as error:
        return Offer(why=error.message)
    try:
        return Offer(backend.profile, backend.supported_ops, backend.version)
    finally:
        backend.lifecycle.close()


def offers(catalog: BackendCatalog | None = None) -> Mapping[str, Offer]:
    """Returns the offers of all backends by id, in order of precedence."""
    registrations = (installed() if catalog is None else catalog).by_precedence()
    return {str(registration.id): offer_of(registration) for registration in registrations}


def profile_rows(profile: DeviceProfile) -> list[tuple[str, object]]:
    """Returns the facts of a profile by name: its features as one row, and what is known of limits and sizes."""
    rows: list[tuple[str, object]] = [("features", ", ".join(sorted(claimed_features(profile))) or "none")]
    rows.append(("types", _share(profile.element_types, frozenset(ScalarType))))
    rows.append(("operators on types", _share(profile.operators, operators_at())))
    for field in fields(profile):
        value = getattr(profile, field.name)
        if field.name != "backend" and value is not None and not isinstance(value, bool | frozenset):
            rows.append((field.name, plain(value)))
    return rows


def operations_text(supported_ops: frozenset[OpId]) -> str:
    """Returns the operations of a backend in words: how many of the language, and those that it lacks."""
    return _share(supported_ops, ALL_OPS)


def _share(offered: frozenset[object], everything: frozenset[object]) -> str:
    lacking = ", ".join(sorted(map(str, everything - offered)))
    return f"{len(offered & everything)} of {len(everything)}" + (f", without {lacking}" if lacking else "")


def plain(value: object) -> object:
    """Returns a fact of a profile as JSON has it: the name of a quality; axes, types and operators as lists."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, frozenset):
        return sorted(map(str, value))
    return list(value) if isinstance(value, tuple) else value


def offer_json(offer: Offer) -> dict[str, object]:
    """Returns an offer as JSON; the facts of the profile are null where they are unknown."""
    if offer.profile is None:
        return {"profile": None, "why_no_profile": offer.why}
    facts = {field.name: plain(getattr(offer.profile, field.name)) for field in fields(offer.profile)}
    return {
        "version": offer.version,
        "profile": facts,
        "operations": sorted(offer.supported_ops),
        "lacks": sorted(ALL_OPS - offer.supported_ops),
    }
