"""Pipelines: a program under one config, as kernels in the order of their launches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vyre import (
    DeviceLimitExceeded,
    DispatchConfig,
    DispatchTimeout,
    DispatchTiming,
    StepBudgetExceeded,
    TrapError,
)
from vyre.ir import Program
from vyre.lowering import (
    Compilation,
    Launch,
    PipelineExecutor,
    Rounds,
    Step,
    expanded,
    grid_control,
    plan_bindings,
    plan_grid_sync,
    plan_programs,
    refuse_unsupported,
    resolve_launch,
    spec_literals,
    with_constants,
)
from vyre.ports import HostBytes, OutputStorage
from vyre_opencl.device import CPU_PRIVATE_NBYTES, Device, cl, is_cpu, limits_of, profile_of, translated
from vyre_opencl.kernel import ENTRY, KernelText, emit
from vyre_opencl.writer import NAME, unsupported

_NO_FAILURE: Final = 0xFFFF_FFFF_FFFF_FFFF
_POLL_S: Final = 0.0005
_NUMBERS: Final = count()
HONOURED: Final = frozenset({"step_budget", "timeout_s"})
"""The fields of a config that the backend honours, of those that a backend need not."""


class Slot(NamedTuple):
    """Device memory that a buffer is bound to, with its number of elements and its first byte."""

    memory: Any
    elements: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """One kernel of a program.  The lock is held from the first argument to the launch: a kernel keeps arguments."""

    text: KernelText
    kernel: Any
    lock: Lock


class OpenClPipeline:
    """A program under one config; ``dispatch`` may run in several threads at once."""

    def __init__(self, device: Device, program: Program, config: DispatchConfig) -> None:
        """Compiles every kernel.  Raises ``UnsupportedFeature`` for what OpenCL or this backend does not offer."""
        refuse_unsupported(config, NAME, HONOURED)
        self.id: str = f"{NAME}:{program.digest.hex()[:16]}:{next(_NUMBERS)}"
        _, queue = device.opened()
        self.device: Final = device
        self.config: Final = config
        self._profile: Final = profile_of(queue.device)
        self._is_cpu: Final = is_cpu(queue.device)
        self._plan: Final = plan_bindings(program)
        self._program: Final = program
        self._workgroup: Final = config.workgroup or program.workgroup_size
        plain = expanded(replace(program, workgroup_size=self._workgroup))
        self._control: Final = grid_control(plain)
        self._steps: Final = plan_grid_sync(plain)
        self._constants: Final = spec_literals(program, config.spec)
        self._compiling: Final = Lock()
        self._compiled: tuple[int, dict[int, _Part]] = (device.epoch, self._compile())

    def _compile(self) -> dict[int, _Part]:
        """Returns the compiled kernels by the identity of their programs."""
        if prod(self._workgroup) > (self._profile.max_invocations_per_workgroup or 0):
            return {}  # every launch is refused
        parts: dict[int, _Part] = {}
        for part in plan_programs(self._steps):
            # After the split, which takes valid programs alone: a constant may be an index that a literal may not.
            text = emit(with_constants(part, self._constants), counts_steps=self.config.step_budget is not None)
            if text.local_nbytes > (self._profile.max_shared_memory_bytes or 0):
                raise DeviceLimitExceeded(
                    what="workgroup memory in bytes",
                    limit="max_shared_memory_bytes",
                    needed=text.local_nbytes,
                    offered=self._profile.max_shared_memory_bytes or 0,
                    backend=NAME,
                )
            private = text.private_nbytes * prod(self._workgroup)
            if self._is_cpu and private > CPU_PRIVATE_NBYTES:
                raise unsupported(
                    f"{private} bytes of private memory in a workgroup on a processor",
                    f"use smaller workgroups, or private buffers of at most {CPU_PRIVATE_NBYTES} bytes together.",
                )
            kernel = self.device.kernel(text.source, ENTRY, has_private_arrays=text.private_nbytes > 0)
            parts[id(part)] = _Part(text, kernel, Lock())
        return parts

    def parts(self) -> dict[int, _Part]:
        """Returns the kernels, which are compiled anew after the device was recovered."""
        with self._compiling:
            epoch, parts = self._compiled
            if epoch != self.device.epoch:
                epoch, parts = self._compiled = self.device.epoch, self._compile()
            return parts

    def launch(self, input_nbytes: tuple[int, ...]) -> Launch:
        """Returns the launch for inputs of these lengths in bytes."""
        return resolve_launch(self._program, input_nbytes, self.config, limits_of(self._profile))

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        """Runs once on host bytes; on an error ``outputs`` is cleared."""
        started = time.perf_counter_ns()
        try:
            launch = self.launch(tuple(view.nbytes for view in inputs))
            _, queue = self.device.opened()
            slots = self._uploaded(queue, inputs, launch)
            run = _Run(self, queue, slots, launch, started)
            run.all(self._steps, self._control)
            self._download(queue, slots, launch, outputs.begin(launch.output_nbytes))
        except BaseException:
            outputs.clear()
            raise
        return DispatchTiming(time.perf_counter_ns() - started, device_ns=run.device_ns())

    def run(self, queue: Any, slots: dict[str, Slot], launch: Launch) -> None:
        """Runs once on device memory."""
        _Run(self, queue, slots, launch, time.perf_counter_ns()).all(self._steps, self._control)

    def _download(self, queue: Any, slots: dict[str, Slot], launch: Launch, views: Sequence[memoryview]) -> None:
        with translated():
            for place, view, (start, _) in zip(self._plan.outputs, views, launch.output_ranges, strict=True):
                if len(view):
                    memory = slots[self._plan.bindings[place].buffer.name].memory
                    cl().enqueue_copy(queue, np.frombuffer(view, np.uint8), memory, src_offset=start)

    def _uploaded(self, queue: Any, inputs: Sequence[HostBytes], launch: Launch) -> dict[str, Slot]:
        """Returns new device memory with the inputs, and zeros for the buffers that the program fills."""
        module = cl()
        slots: dict[str, Slot] = {}
        for binding, nbytes, elements in zip(self._plan.bindings, launch.nbytes, launch.counts, strict=True):
            memory = self.device.allocate(nbytes)
            if nbytes:
                with translated():
                    if binding.input_index is None:
                        module.enqueue_fill_buffer(queue, memory, np.uint8(0), 0, nbytes)
                    else:
                        module.enqueue_copy(queue, memory, np.frombuffer(inputs[binding.input_index], np.uint8))
            slots[binding.buffer.name] = Slot(memory, elements)
        return slots


class _Run:
    """One run of a pipeline on device memory."""

    def __init__(
        self, pipeline: OpenClPipeline, queue: Any, slots: dict[str, Slot], launch: Launch, started_ns: int
    ) -> None:
        self._pipeline, self._queue, self._slots, self._launch = pipeline, queue, slots, launch
        self._device: Final = pipeline.device
        self._config: Final = pipeline.config
        self._started_ns: Final = started_ns
        self._parts: Final = pipeline.parts()
        self._events: list[Any] = []
        lanes = [groups * size for groups, size in zip(launch.grid, launch.workgroup, strict=True)]
        self._lanes: Final = lanes
        self._used: Any = None
        if self._config.step_budget is not None:
            self._used = self._filled(8 * prod(lanes), 0)

    def all(self, steps: Sequence[Step], control: Any) -> None:
        """Runs every step, as often as the config says, and waits for the last."""
        if control is not None:
            words = control.count
            self._slots = {**self._slots, control.name: Slot(self._filled(4 * words, 0), words)}
        for _ in range(self._config.launches):
            self._steps(steps, control)
        self._wait()

    def device_ns(self) -> int | None:
        """Returns the nanoseconds from the start of the first kernel to the end of the last."""
        if not self._events:
            return None
        with translated():
            begun, ended = self._events[0].profile.start, self._events[-1].profile.end
        return max(0, int(ended) - int(begun))

    def _steps(self, steps: Sequence[Step], control: Any) -> None:
        for step in steps:
            if isinstance(step, Rounds):
                self._kernel(step.enter)
                while self._word(control.name, step.word):
                    self._steps(step.body, control)
                    self._kernel(step.advance)
            else:
                self._kernel(step)

    def _word(self, name: str, word: int) -> int:
        found = np.empty(1, np.uint32)
        self._wait()
        with translated():
            cl().enqueue_copy(self._queue, found, self._slots[name].memory, src_offset=4 * word)
        return int(found[0])

    def _kernel(self, program: Program) -> None:
        part = self._parts[id(program)]
        arguments: list[Any] = []
        for buffer in program.abi_buffers:
            slot = self._slots[buffer.name]
            arguments += [slot.memory, np.uint64(slot.offset), np.uint32(slot.elements)]
        status = None
        if part.text.can_fail:
            if prod(self._lanes) >= 1 << 32:  # a word of status holds the id of a lane beside its address
                raise unsupported("2^32 lanes or more in a program that may fail", "launch a smaller grid.")
            status = self._filled(8 * (1 + len(part.text.traps)), 0xFF)
            arguments.append(status)
        if part.text.counts_steps:
            budget = min(self._config.step_budget or 0, _NO_FAILURE)
            arguments += [self._used, np.uint64(budget)]
        with translated(), part.lock:
            part.kernel.set_args(*arguments)
            event = cl().enqueue_nd_range_kernel(self._queue, part.kernel, self._lanes, list(self._launch.workgroup))
        self._events = [*self._events[:1], event]
        if status is not None:
            self._wait()
            words = np.empty(1 + len(part.text.traps), np.uint64)
            with translated():
                cl().enqueue_copy(self._queue, words, status)
            self._raise_failure(words, part.text.traps)

    def _filled(self, nbytes: int, byte: int) -> Any:
        memory = self._device.allocate(nbytes)
        with translated():
            cl().enqueue_fill_buffer(self._queue, memory, np.uint8(byte), 0, nbytes)
        return memory

    def _wait(self) -> None:
        """Waits for the last kernel; raises ``DispatchTimeout`` when the config's time is over.

        OpenCL cannot stop a kernel: it runs to its end in its own queue, and later work goes to another one.
        """
        if not self._events:
            return
        event, timeout = self._events[-1], self._config.timeout_s
        with translated():
            if timeout is None:
                event.wait()
                return
            self._queue.flush()
            deadline = self._started_ns + int(timeout * 1e9)
            complete = cl().command_execution_status.COMPLETE
            while event.command_execution_status > complete:
                if time.perf_counter_ns() > deadline:
                    self._device.renew_queue(self._queue)
                    raise DispatchTimeout(f"the kernel had not ended after {timeout} s")
                time.sleep(_POLL_S)
            event.wait()  # reports a kernel that failed

    def _raise_failure(self, words: npt.NDArray[np.uint64], tags: tuple[str, ...]) -> None:
        """Raises the error of the lane with the lowest linear id, if there is one."""
        found: list[tuple[int, int, int]] = []
        for site, word in enumerate(map(int, words)):
            if word != _NO_FAILURE:
                found.append((word, 0, 0) if site == 0 else (word >> 32, site, word & 0xFFFF_FFFF))
        if not found:
            return
        linear, site, address = min(found)
        x, y, _ = self._lanes
        lane = linear % x, linear // x % y, linear // (x * y)
        if site == 0:
            raise StepBudgetExceeded(budget=self._config.step_budget or 0, global_id=lane)
        raise TrapError(tag=tags[site - 1], address=address, global_id=lane)


def executor_on(device: Device) -> PipelineExecutor[OpenClPipeline]:
    """Returns the facets ``executor`` and ``compiler``, which keep pipelines by program and config."""

    def make(program: Program, config: DispatchConfig) -> tuple[OpenClPipeline, Compilation]:
        return OpenClPipeline(device, program, config), Compilation()

    return PipelineExecutor(make)
