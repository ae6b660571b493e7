"""An emulated driver that is ready for work: a context, a stream and a pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from driver_contract.rig import DriverRig, code_of, make_rig
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.options import MachineOptions

__all__ = ["Rig", "code_of", "rig"]


Rig: TypeAlias = DriverRig[MachineDriver]


def rig(*, clock: Callable[[], float] | None = None, **options: Any) -> Rig:
    given = MachineOptions(**options)
    driver = MachineDriver(given) if clock is None else MachineDriver(given, clock=clock)
    return make_rig(driver)
