"""Runs a program on a backend with inputs and outputs as bytes by buffer name, for the runners of this package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cpu.ids import CPU
from vyre.adapters.cuda import ids
from vyre.app.services import installed
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, OutputArena
from vyre.domain.errors import BackendUnavailable, InvalidConfig
from vyre.domain.ir.buffers import inputs_of, outputs_of
from vyre.domain.ir.program import Program
from vyre.ports.backend import Backend, BackendRegistration, BackendRole, BackendServices
from vyre.ports.requests import DispatchRequest

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.options import Schedule

CANONICAL: Final = "lockstep"
SCHEDULES: Final[dict[str, Schedule]] = {CANONICAL: "lockstep", "reverse": "reverse", "shuffled": "shuffled"}


def find_backend(name: str) -> BackendRegistration:
    """Returns a registration of the catalog by id; raises ``BackendUnavailable``."""
    catalog = installed()
    registration = catalog.get(name)
    if registration is None:
        known = ", ".join(r.id for r in catalog.by_precedence())
        raise BackendUnavailable(f"no backend is called `{name}`", fix=f"use one of: {known}.")
    return registration


def open_backend(name: str) -> Backend:
    """Opens a backend of the catalog by id; raises ``BackendUnavailable``."""
    return find_backend(name).make()


ORDER_SENSITIVE: Final = "semantics 1.3: order-sensitive, compared in the canonical schedule only"
"""The reason for which a run is skipped on a backend that does not run lanes in the canonical order."""


class Scheduled(NamedTuple):
    """A registration, and whether lanes of its backends run in the canonical schedule."""

    registration: BackendRegistration
    canonical_order: bool


def find_scheduled(name: str, schedule: str | None = None, seed: int | None = None) -> Scheduled:
    """Returns a registration whose backends run lanes in an order of ``SCHEDULES``, drawn from ``seed``.

    Raises ``InvalidConfig`` for another schedule, and ``BackendUnavailable`` for a backend that cannot choose its own.
    """
    if schedule is not None and schedule not in SCHEDULES:
        raise InvalidConfig(f"there is no schedule {schedule!r}", fix=f"use one of {', '.join(SCHEDULES)}.")
    registration = find_backend(name)
    chosen = SCHEDULES[schedule or CANONICAL]
    if name == ids.MACHINE:
        return Scheduled(replace(registration, factory=partial(_machine, chosen, seed or 0)), chosen == CANONICAL)
    canonical_order = registration.role is not BackendRole.PRODUCTION or name == CPU
    if seed is not None or not (schedule is None or (canonical_order and chosen == CANONICAL)):
        raise BackendUnavailable(f"backend `{name}` runs its own schedule only", fix="leave --schedule and --seed out.")
    return Scheduled(registration, canonical_order)


def _machine(schedule: Schedule, seed: int, services: BackendServices) -> Backend:
    """Makes an emulated device that, as the one in the catalog, accepts programs with intended races."""
    from vyre.adapters.cuda.machine.options import RunOptions
    from vyre.testing.machine import cuda_machine

    return cuda_machine(kernels=RunOptions(schedule, seed, check_races=False)).backend


def execute(
    backend: Backend, program: Program, inputs: Mapping[str, bytes], config: DispatchConfig = DEFAULT_CONFIG
) -> dict[str, bytes]:
    """Returns the outputs of a valid program by buffer name; raises what the backend raises.

    Missing inputs are left out, which the backend refuses.
    """
    arena = OutputArena()
    views = tuple(memoryview(inputs[b.name]) for b in inputs_of(program.abi_buffers) if b.name in inputs)
    backend.executor.execute(DispatchRequest(program, views, config), arena)
    return dict(zip((b.name for b in outputs_of(program.abi_buffers)), arena.to_bytes(), strict=True))
