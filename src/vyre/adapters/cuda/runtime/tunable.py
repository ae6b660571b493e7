"""What a tuner may vary on a CUDA device, and what it goes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import TUNED_PROFILES
from vyre.adapters.cuda.runtime.device import CudaDevice
from vyre.adapters.cuda.runtime.executor import CudaExecutor
from vyre.adapters.source_digest import emitter_digest
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch
from vyre.domain.specialization import spec_literals
from vyre.domain.tuning import TimeKind


class CudaTunable:
    """``Tunable``.  ``work_done``: what an emulated device has done; None: the device has clocks."""

    def __init__(self, device: CudaDevice, executor: CudaExecutor, work_done: Callable[[], int] | None) -> None:
        self._device = device
        self._executor = executor
        self._work_done = work_done

    @property
    def kind(self) -> TimeKind:
        return TimeKind.DEVICE if self._work_done is None else TimeKind.ESTIMATED

    @property
    def device(self) -> str:
        facts = self._device.facts
        return f"{facts.name} {facts.uuid.hex()}"

    @property
    def driver(self) -> str:
        return str(self._device.facts.driver_version)

    @property
    def versions(self) -> str:
        return f"emitter {emitter_digest().hex()}"

    def profiles(self, program: Program, config: DispatchConfig, launch: Launch, /) -> Sequence[str]:
        texts = {self._code(program, replace(config, profile=None), launch)}
        found = []
        for name in TUNED_PROFILES:
            text = self._code(program, replace(config, profile=name), launch)
            if text not in texts:
                texts.add(text)
                found.append(name)
        return found

    def occupancy_bps(self, program: Program, config: DispatchConfig, launch: Launch, /) -> int | None:
        pipeline = self._executor.pipeline(program, config)[0]
        with self._device.calls:
            lanes = pipeline.resident_lanes(launch)
        return lanes * 10_000 // self._device.facts.threads_per_multiprocessor

    def work_done(self) -> int:
        return 0 if self._work_done is None else self._work_done()

    def _code(self, program: Program, config: DispatchConfig, launch: Launch) -> str:
        """Without the names of its kernels, which tell what it was made with."""
        pipeline = self._executor.pipeline(program, config)[0]
        with self._device.calls:
            options = pipeline.options_for(launch)
        sized = replace(program, workgroup_size=launch.workgroup)
        module = emit(sized, options, spec_literals(program, config.spec))
        text = module.ptx
        for kernel in module.kernels:
            text = text.replace(kernel.entry, "kernel")
        return text
