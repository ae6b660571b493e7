"""What a case of the seam's suite is, and how a module lists its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from driver_contract.rig import AnyRig, closing_rig
from vyre.adapters.cuda.seam import CudaDriver


class Case(NamedTuple):
    """``needs_execution``: only a driver that compiles and runs code can pass.  ``hardware``: whether the driver API
    defines what happens; where it does not, a real driver may crash, and the case binds the doubles alone."""

    name: str
    needs_execution: bool
    hardware: bool
    check: Callable[[AnyRig], None]

    def run(self, driver: CudaDriver) -> None:
        """Raises ``AssertionError`` (or ``CudaCallError``) if the driver breaks the rule."""
        with closing_rig(driver) as rig:
            self.check(rig)


class Cases:
    """Collects the cases of one module; the name of a case is that of its function."""

    def __init__(self) -> None:
        self._cases: list[Case] = []

    def __iter__(self) -> Iterator[Case]:
        return iter(self._cases)

    def __call__(
        self, *, needs_execution: bool = False, hardware: bool = True
    ) -> Callable[[Callable[[AnyRig], None]], Callable[[AnyRig], None]]:
        def register(check: Callable[[AnyRig], None]) -> Callable[[AnyRig], None]:
            self._cases.append(Case(check.__name__, needs_execution, hardware, check))
            return check

        return register
