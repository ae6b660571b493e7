"""Asynchronous dispatch: ``submit`` queues a job and returns; a thread of the pool calls the callbacks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vyre.adapters.cpu.pool.commands import CommandList
from vyre.adapters.cpu.pool.layout import Outcome
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.lane import owners_of, run_failed
from vyre.adapters.cpu.runtime.launch import Owner, StepFrame
from vyre.adapters.cpu.runtime.pipeline import CpuExecutor, CpuPipeline, Shape
from vyre.adapters.host.memory import allocate_aligned
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import DeviceOutOfMemory
from vyre.ports.backend import DispatchRequest, OutputStorage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.adapters.cpu.pool.job import Job


class CpuPending:
    """A submitted dispatch.  Every method may be called from any thread, and any number of times.

    The run of a dropped handle goes on, and its memory lives until then; it is freed by later submissions, or when the
    backend is flushed or closed.  A handle that is dropped after the end of its run frees the memory at once.
    ``outputs`` holds the memory of each output with the range of it that is returned.
    """

    def __init__(
        self,
        device: CpuDevice,
        pipeline: CpuPipeline,
        shape: Shape,
        job: Job,
        owners: tuple[Owner, ...],
        outputs: tuple[tuple[npt.NDArray[np.uint8], int, int], ...],
    ) -> None:
        self._device, self._pipeline, self._shape = device, pipeline, shape
        self._job, self._owners, self._outputs = job, owners, outputs
        self._lock = threading.Lock()
        self._outcome: DispatchTiming | Exception | None = None
        self._began = time.perf_counter_ns()

    def done(self) -> bool:
        """Returns whether the run has ended, with or without an error."""
        return self._job.done

    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming:
        """Fills ``outputs`` with the results and returns the measured times.

        Raises the error of the run, and ``TimeoutError`` if it still runs after ``timeout`` seconds.
        """
        if self._outcome is None and not self._job.wait(timeout):
            raise TimeoutError(f"{self!r} did not finish within {timeout} s")
        outcome = self._collected()
        if isinstance(outcome, Exception):
            outputs.clear()
            raise outcome
        views = outputs.begin(tuple(end - start for _, start, end in self._outputs))
        for view, (data, start, end) in zip(views, self._outputs, strict=True):
            view[:] = data[start:end].data
        return outcome

    def add_done_callback(self, callback: Callable[[], object], /) -> None:
        """Has ``callback`` called once the run has ended: now if it has, else in a thread of the pool."""
        self._job.add_done_callback(callback)

    def cancel(self) -> bool:
        """Stops the run: before it begins, else at the next look of a lane at the stop flag."""
        if self._job.done:
            return False
        self._job.stop()
        return True

    def _collected(self) -> DispatchTiming | Exception:
        with self._lock:
            if self._outcome is None:
                job, device = self._job, self._device
                device.ended(job)
                match job.outcome:
                    case Outcome.COMPLETED:
                        native = job.elapsed_ns
                        self._pipeline.learn(self._shape, native)
                        self._outcome = DispatchTiming(time.perf_counter_ns() - self._began, native)
                    case Outcome.OUT_OF_MEMORY:
                        self._outcome = DeviceOutOfMemory(requested=job.commands.scratch_bytes)
                    case other:
                        self._outcome = run_failed(device, job, other, self._owners)
            return self._outcome

    def __del__(self) -> None:
        self._device.ended(self._job)

    def __repr__(self) -> str:
        return f"<CpuPending of {self._pipeline.id}>"


class CpuAsync:
    """``AsyncExecutor`` of the backend."""

    def __init__(self, device: CpuDevice, executor: CpuExecutor) -> None:
        self._device: Final = device
        self._executor: Final = executor

    def submit(self, request: DispatchRequest, /) -> CpuPending:
        """Queues a dispatch and returns its handle; the inputs have been copied when this returns."""
        import numpy as np

        pipeline, _ = self._executor.pipeline(request.program, request.config)
        shape = pipeline.shape(tuple(view.nbytes for view in request.inputs))
        launch, plan, config = shape.launch, pipeline.plan, pipeline.config
        keep: list[npt.NDArray[np.uint8]] = []
        addresses: list[int] = []
        outputs: list[tuple[npt.NDArray[np.uint8], int, int]] = []
        for binding, nbytes in zip(plan.bindings, launch.nbytes, strict=True):
            data, address = allocate_aligned(nbytes)  # zeros, which an output starts with
            if binding.input_index is not None:
                data[:] = np.frombuffer(request.inputs[binding.input_index], np.uint8)
            if binding.output_index is not None:
                outputs.append((data, *launch.output_ranges[binding.output_index]))
            keep.append(data)
            addresses.append(address)
        frame = StepFrame(launch, config.step_budget, pipeline.kernels)
        frame.bind(addresses)
        first = frame.clearing()
        module, placement = shape.choice
        kernels = frame.kernels(module.loaded, launch, placement)
        owners = owners_of(pipeline.spec(launch), module, len(first), len(kernels))
        job = self._device.job(CommandList(first, kernels, config.launches))
        job.set_timeout(config.timeout_s)
        job.keep = (frame, keep, module.loaded, placement)
        pending = CpuPending(self._device, pipeline, shape, job, owners, tuple(outputs))
        self._device.submit(job)
        self._device.counters.submitted += 1
        self._device.counters.dispatches += 1
        return pending
