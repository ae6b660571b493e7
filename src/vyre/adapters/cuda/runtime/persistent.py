"""The facet of persistent engines: it opens them, and ends them with the device."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

from vyre.adapters.cuda.runtime.device import DeviceMember, release_all
from vyre.adapters.cuda.runtime.engine import CudaEngine
from vyre.adapters.cuda.runtime.executor import CudaExecutor
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.forks import process_lock
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidResource, UnsupportedFeature
from vyre.domain.grid_sync import has_grid_barriers
from vyre.domain.ir.program import Program
from vyre.ports.interrupts import whole
from vyre.ports.persistent import MOST_CAPACITY


class CudaPersistent(DeviceMember):
    """``PersistentExecutor`` of the backend."""

    def __init__(self, resources: Resources, executor: CudaExecutor) -> None:
        self._resources: Final = resources
        self._executor = executor
        self._open: WeakSet[CudaEngine] = WeakSet()
        self._lock = process_lock()
        resources.device.add(self)

    @whole
    def open(
        self, program: Program, config: DispatchConfig, input_nbytes: tuple[int, ...], capacity: int, /
    ) -> CudaEngine:
        if not 2 <= capacity <= MOST_CAPACITY:
            raise InvalidResource(
                f"capacity={capacity} of a persistent engine", fix=f"take a number from 2 to {MOST_CAPACITY}."
            )
        device = self._resources.device
        self._refuse(has_grid_barriers(program), "a grid loop in a persistent engine")
        self._refuse(config.race_check, "race_check in a persistent engine")
        self._refuse(device.facts.limits_kernels, "persistent engines on a device that limits the time of kernels")
        pipeline, _ = self._executor.pipeline(program, config)
        with device.calls:
            engine = CudaEngine(self._resources, pipeline, input_nbytes, capacity, self._forget)
            with self._lock:  # still inside, so that ``close`` misses none
                self._open.add(engine)
        return engine

    def _refuse(self, wanted: bool, feature: str) -> None:
        if wanted:
            raise UnsupportedFeature(
                feature=feature, backend=self._resources.device.backend, fix="dispatch the program."
            )

    def _forget(self, engine: CudaEngine) -> None:
        with self._lock:
            self._open.discard(engine)

    def _taken(self) -> tuple[CudaEngine, ...]:
        """Takes all engines that have not ended out of the set."""
        with self._lock:
            engines = tuple(self._open)
            self._open.clear()
        return engines

    # ---- as a member of the device
    def stop(self) -> None:
        """Tells the kernels of all engines to leave."""
        with self._lock:
            engines = tuple(self._open)
        for engine in engines:
            engine.stop()

    def release(self) -> None:
        """Frees all engines."""
        release_all([engine.release for engine in self._taken()])

    def forget(self) -> None:
        """Drops all engines without a driver call."""
        device = self._resources.device
        lost = device.lost_error() if device.device_lost() else None
        for engine in self._taken():
            engine.abandon(lost)
