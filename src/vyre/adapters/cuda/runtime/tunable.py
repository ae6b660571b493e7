"""The tuning facet: what a tuner may vary on a CUDA device, and by which times it compares."""

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
from vyre.ports.interrupts import whole


class CudaTunable:
    """``Tunable`` of one device.  ``work_done`` returns the work of an emulated device; None: the device has clocks."""

    def __init__(self, device: CudaDevice, executor: CudaExecutor, work_done: Callable[[], int] | None) -> None:
        self._device = device
        self._executor = executor
        self._work_done = work_done

    @property
    def kind(self) -> TimeKind:
        """Returns whether times are measured on the device or estimated from the emulated work."""
        return TimeKind.DEVICE if self._work_done is None else TimeKind.ESTIMATED

    @property
    def device(self) -> str:
        """Returns the device's name and UUID."""
        facts = self._device.facts
        return f"{facts.name} {facts.uuid.hex()}"

    @property
    def driver(self) -> str:
        """Returns the driver's version, ``1000 * major + 10 * minor``, as text."""
        return str(self._device.facts.driver_version)

    @property
    def versions(self) -> str:
        """Returns the digest of the emitter's source."""
        return f"emitter {emitter_digest().hex()}"

    @whole
    def profiles(self, program: Program, config: DispatchConfig, launch: Launch, /) -> Sequence[str]:
        """Returns the tuned profiles whose text for this launch differs from the default's and from each other's."""
        texts = {self._code(program, replace(config, profile=None), launch)}
        names = []
        for name in TUNED_PROFILES:
            text = self._code(program, replace(config, profile=name), launch)
            if text not in texts:
                texts.add(text)
                names.append(name)
        return names

    @whole
    def occupancy_bps(self, program: Program, config: DispatchConfig, launch: Launch, /) -> int | None:
        """Returns the lanes that a multiprocessor holds at once, in 1/10 000 of the most that it can hold."""
        pipeline = self._executor.pipeline(program, config)[0]
        with self._device.calls:
            lanes = pipeline.resident_lanes(launch)
        return lanes * 10_000 // self._device.facts.threads_per_multiprocessor

    def work_done(self) -> int:
        """Returns the lane instructions that an emulated device has run so far; 0 on a device with clocks."""
        return 0 if self._work_done is None else self._work_done()

    def _code(self, program: Program, config: DispatchConfig, launch: Launch) -> str:
        """Returns the text without the names of its kernels, which differ with the options that it was emitted with."""
        pipeline = self._executor.pipeline(program, config)[0]
        with self._device.calls:
            options = pipeline.options_for(launch)
        sized = replace(program, workgroup_size=launch.workgroup)
        module = emit(sized, options, spec_literals(program, config.spec))
        text = module.ptx
        for kernel in module.kernels:
            text = text.replace(kernel.entry, "kernel")
        return text
