"""A device to be tuned: it computes with a function, on a clock of its own, in the time that a test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from support.small_programs import square_kernel
from vyre.app.tuning.tuner import TuningSettings
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import BackendError
from vyre.domain.ir.program import BackendId, Program
from vyre.domain.launch import Launch
from vyre.domain.tuning import TimeKind
from vyre.ports.backend import Backend, BackendCatalog, BackendRole
from vyre.ports.lifecycle import NullLifecycle
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.testing.fakes import FunctionExecutor, claiming_all, function_backend, registration_of

ID: Final = BackendId("tuned")
DECLARED: Final = 64
"""Of ``square_program``, which it runs."""


@dataclass
class TunedDevice:
    """``cost_ns``: of a launch by size and profile; ``jitter_ns``: added by turns.  ``wrong``, ``failing``: sizes that
    give other bytes, or none; ``wrong_from``: only after this many launches.  ``names``: profiles.  ``untimed``: it
    tells no times.  ``now``: its clock, in ns; ``launched``: the configs that ran.
    """

    cost_ns: Callable[[int, str], int] = lambda size, profile: 1_000_000
    jitter_ns: Sequence[int] = (0, 700, 300, 1_100, 500)
    wrong: frozenset[int] = frozenset()
    wrong_from: int = 0
    failing: frozenset[int] = frozenset()
    kind: TimeKind = TimeKind.DEVICE
    names: tuple[str, ...] = ()
    occupancies: dict[int, int] = field(default_factory=dict)
    device: str = "a device"
    driver: str = "13.0"
    versions: str = "emitter 1"
    untimed: bool = False
    now: int = 0
    launched: list[DispatchConfig] = field(default_factory=list)

    # ---- executor
    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        config = request.config
        size = DECLARED if config.workgroup is None else config.workgroup[0]
        if size in self.failing:
            raise BackendError(f"no {size} lanes today")
        self.launched.append(config)
        spoilt = size in self.wrong and len(self.launched) > self.wrong_from
        kernel = FunctionExecutor(_wrong_squares if spoilt else square_kernel)
        kernel.execute(request, outputs)
        spent = self.cost_ns(size, config.profile or "") + self.jitter_ns[len(self.launched) % len(self.jitter_ns)]
        self.now += spent
        return DispatchTiming(spent, None if self.untimed else spent)

    # ---- tunable
    def profiles(self, program: Program, config: DispatchConfig, launch: Launch, /) -> Sequence[str]:
        return self.names

    def occupancy_bps(self, program: Program, config: DispatchConfig, launch: Launch, /) -> int | None:
        return self.occupancies.get(launch.workgroup[0])

    def work_done(self) -> int:
        return self.now if self.kind is TimeKind.ESTIMATED else 0

    # ---- around
    @property
    def backend(self) -> Backend:
        return Backend(
            id=ID,
            profile=claiming_all(ID, max_invocations_per_workgroup=1024),
            executor=self,
            lifecycle=NullLifecycle(ID),
            tunable=None if self.kind is TimeKind.HOST else self,
        )

    @property
    def catalog(self) -> BackendCatalog:
        """Beside a reference whose launches are not counted."""
        reference = registration_of(function_backend(square_kernel, "reference"), role=BackendRole.REFERENCE)
        return BackendCatalog((registration_of(self.backend), reference))

    def settings(self, **changes: Any) -> TuningSettings:
        """On the clock of the device."""
        runs = count()
        return TuningSettings(
            now_ns=lambda: self.now,
            now_s=lambda: 1_000 + self.now // 1_000_000_000,
            new_run=lambda: f"run {next(runs)}",
            **changes,
        )


def _wrong_squares(inputs: Mapping[str, bytes]) -> dict[str, bytes]:
    return {"y": bytes(len(inputs["x"]))}
