"""Memory that stays on the device, and launches on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np

from vyre import DispatchConfig, DispatchTiming, InvalidInput, InvalidResource
from vyre.lowering import Binding, Launch, PipelineExecutor, check_alignment, check_overlap, plan_bindings
from vyre.ports import Readback, ResidentBuffer, ResidentSequence, ResidentStep, Upload, check_ownership
from vyre_opencl.device import ID, Device, cl, translated
from vyre_opencl.pipeline import OpenClPipeline, Slot

_FLAG_BYTES: Final = 4
_SPACING: Final = 1 << 48
"""The distance of the addresses by which memory is compared; no allocation is as large."""
_NUMBERS: Final = count()


class ClBuffer(ResidentBuffer):
    """An OpenCL buffer, or a part of one.

    ``address`` is a number that tells allocations apart, because OpenCL 1.2 shows no addresses.
    """

    __slots__ = ("_memory", "address")

    def __init__(
        self,
        memory: Any,
        nbytes: int,
        epoch: int,
        label: str | None,
        base: ClBuffer | None = None,
        offset: int = 0,
        readonly: bool = False,
    ) -> None:
        self._memory = memory
        self.address: int = next(_NUMBERS) * _SPACING if base is None else base.address + offset
        super().__init__(
            backend_id=ID, nbytes=nbytes, epoch=epoch, label=label, base=base, offset=offset, readonly=readonly
        )

    @property
    def memory(self) -> Any:
        """Returns the OpenCL buffer of the whole allocation."""
        root = self.root
        assert isinstance(root, ClBuffer)
        return root._memory

    def _part(self, offset: int, nbytes: int, *, readonly: bool) -> ClBuffer:
        return ClBuffer(None, nbytes, self.epoch, self.label, self, offset, readonly)

    def _release(self) -> None:
        self._memory = None  # freed when no launch uses it any more


class _Bound(NamedTuple):
    """A step with its pipeline, its launch, and the memory of each buffer."""

    pipeline: OpenClPipeline
    launch: Launch
    slots: dict[str, Slot]
    zeroed: tuple[tuple[Slot, int], ...]
    """The memory that starts as zeros, with its number of bytes."""

    def run(self, queue: Any) -> None:
        """Runs the step and waits for its end."""
        for slot, nbytes in self.zeroed:
            _fill(queue, slot, nbytes)
        self.pipeline.run(queue, self.slots, self.launch)


class ClBoundStep:
    """A step that was checked and prepared once; a ``BoundResidentStep``."""

    def __init__(self, device: Device, bound: _Bound, buffers: Sequence[ResidentBuffer]) -> None:
        self._device: Final = device
        self._buffers: Final = buffers
        self._epoch: Final = device.epoch
        self._bound: _Bound | None = bound

    def __call__(self) -> None:
        """Runs the step; raises ``InvalidResource`` once it or its memory is closed, and after a recovery."""
        if self._bound is None or self._epoch != self._device.epoch:
            raise InvalidResource("a bound step is used after close() or recover()", fix="bind it again.")
        check_ownership(ID, self._epoch, self._buffers)
        _, queue = self._device.opened()
        self._bound.run(queue)

    def close(self) -> None:
        """Lets go of what the step has prepared; its buffers stay."""
        self._bound = None


class ClMemory:
    """``ResidentMemory``, ``ResidentExecutor`` and ``ResidentBinder``."""

    def __init__(self, device: Device, executor: PipelineExecutor[OpenClPipeline]) -> None:
        self._device: Final = device
        self._executor: Final = executor

    # ---- ResidentMemory
    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        """Returns zeroed memory."""
        if nbytes < 0:
            raise InvalidResource(f"an allocation of {nbytes} bytes", fix="allocate 0 bytes or more.")
        memory = self._device.allocate(nbytes)
        _, queue = self._device.opened()
        _fill(queue, Slot(memory, 0), nbytes)
        with translated(nbytes):
            queue.finish()
        return ClBuffer(memory, nbytes, self._device.epoch, label)

    def upload(self, uploads: Sequence[Upload], /) -> None:
        """Copies host bytes to the device once every range is checked."""
        targets = [self._range(u.buffer, u.offset, u.data.nbytes, writing=True) for u in uploads]
        _, queue = self._device.opened()
        with translated():
            for (buffer, start), upload in zip(targets, uploads, strict=True):
                if upload.data.nbytes:
                    data = np.frombuffer(upload.data, np.uint8)
                    cl().enqueue_copy(queue, buffer.memory, data, dst_offset=start)

    def download(self, reads: Sequence[Readback], /) -> None:
        """Copies device bytes to the host once every range is checked."""
        sources = [self._range(r.buffer, r.offset, r.into.nbytes) for r in reads]
        _, queue = self._device.opened()
        with translated():
            for (buffer, start), read in zip(sources, reads, strict=True):
                if read.into.nbytes:
                    into = np.frombuffer(read.into, np.uint8)
                    cl().enqueue_copy(queue, into, buffer.memory, src_offset=start)

    def _own(self, buffer: ResidentBuffer) -> ClBuffer:
        check_ownership(ID, self._device.epoch, (buffer,))
        assert isinstance(buffer, ClBuffer)
        return buffer

    def _range(
        self, buffer: ResidentBuffer, offset: int, nbytes: int, *, writing: bool = False
    ) -> tuple[ClBuffer, int]:
        """Returns the buffer and the first byte of a range in its allocation."""
        own = self._own(buffer)
        if writing and own.readonly:
            raise InvalidResource(f"{own!r} is read-only", fix="upload to memory that may be written.")
        if offset < 0 or offset + nbytes > own.nbytes:
            raise InvalidResource(
                f"bytes {offset}..{offset + nbytes} of {own!r}", fix=f"stay within its {own.nbytes} bytes."
            )
        return own, own.offset + offset

    # ---- ResidentExecutor
    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        """Runs a sequence, launch by launch."""
        started = time.perf_counter_ns()
        flag = sequence.flag
        if flag is not None:
            self._range(flag, 0, _FLAG_BYTES)
        for read in sequence.reads:
            self._range(read.buffer, read.offset, read.into.nbytes)
        _, queue = self._device.opened()
        prefix = [self._bound(queue, step) for step in sequence.prefix]
        repeated = [self._bound(queue, step) for step in sequence.repeated]
        rounds, converged = 0, False
        for bound in prefix:
            bound.run(queue)
        while rounds < sequence.repeat_count and not converged:
            if flag is not None:
                self.upload([Upload(flag, memoryview(bytes(_FLAG_BYTES)))])
            for bound in repeated:
                bound.run(queue)
            rounds += 1
            if flag is not None:
                word = bytearray(_FLAG_BYTES)
                self.download([Readback(flag, memoryview(word))])
                converged = not any(word)
        self.download(sequence.reads)
        took = time.perf_counter_ns() - started
        return DispatchTiming(took) if flag is None else DispatchTiming(took, rounds=rounds, converged=converged)

    # ---- ResidentBinder
    def bind(self, step: ResidentStep, /) -> ClBoundStep:
        """Returns a step with everything checked, its kernels compiled and its host bytes on the device."""
        _, queue = self._device.opened()
        buffers = [resource for resource in step.resources if isinstance(resource, ResidentBuffer)]
        return ClBoundStep(self._device, self._bound(queue, step), buffers)

    def _bound(self, queue: Any, step: ResidentStep) -> _Bound:
        """Returns a step with everything checked, and its host bytes on the device."""
        plan = plan_bindings(step.program)
        if len(step.resources) != len(plan.bindings):
            raise InvalidInput(
                f"{len(step.resources)} resources for {len(plan.bindings)} buffers",
                fix="pass one per non-workgroup buffer, in binding order.",
            )
        lengths: list[int] = []
        ranges: list[tuple[str, bool, int, int]] = []
        for binding, resource in zip(plan.bindings, step.resources, strict=True):
            name, written = binding.buffer.name, binding.buffer.is_writable
            if isinstance(resource, ResidentBuffer):
                own = self._own(resource)
                if binding.buffer.is_push:
                    raise InvalidResource(f"parameter `{name}` is bound to {own!r}", fix="pass its bytes.")
                if written and own.readonly:
                    raise InvalidResource(f"`{name}` is written, and {own!r} is read-only", fix="bind other memory.")
                check_alignment(name, binding.element_size, own.offset, own)
                ranges.append((name, written, own.address, own.address + own.nbytes))
                lengths.append(_seen(binding, own.nbytes))
            elif written:
                raise InvalidResource(f"`{name}` is written, but bound to host bytes", fix="bind a resident buffer.")
            else:
                lengths.append(resource.nbytes)
        check_overlap(ranges)
        pipeline, _ = self._executor.pipeline(step.program, _sized(step.config, plan.bindings, lengths))
        launch = pipeline.launch(tuple(lengths[place] for place in plan.inputs))
        slots: dict[str, Slot] = {}
        zeroed: list[tuple[Slot, int]] = []
        for place, binding in enumerate(plan.bindings):
            resource, nbytes, name = step.resources[place], launch.nbytes[place], binding.buffer.name
            if lengths[place] < nbytes:
                raise _too_short(name, nbytes, lengths[place])
            if isinstance(resource, ResidentBuffer):
                own = self._own(resource)
                slots[name] = Slot(own.memory, launch.counts[place], own.offset)
            else:
                slots[name] = Slot(self._device.allocate(nbytes), launch.counts[place])
                if nbytes:
                    with translated():
                        cl().enqueue_copy(queue, slots[name].memory, np.frombuffer(resource, np.uint8))
            if binding.input_index is None:
                zeroed.append((slots[name], nbytes))
        return _Bound(pipeline, launch, slots, tuple(zeroed))


def _seen(binding: Binding, nbytes: int) -> int:
    """Returns the bytes that a program sees of so many: its static length, or whole elements."""
    static = binding.static_nbytes
    if static is None:
        return nbytes - nbytes % binding.element_size
    if nbytes < static:
        raise _too_short(binding.buffer.name, static, nbytes)
    return static


def _sized(config: DispatchConfig, bindings: Sequence[Binding], lengths: Sequence[int]) -> DispatchConfig:
    """Returns the config with counts for the outputs whose size only their memory tells."""
    counts = {
        b.buffer.name: nbytes // b.element_size
        for b, nbytes in zip(bindings, lengths, strict=True)
        if b.input_index is None and b.buffer.count == 0 and b.buffer.like is None
    }
    return replace(config, output_counts={**counts, **(config.output_counts or {})}) if counts else config


def _fill(queue: Any, slot: Slot, nbytes: int) -> None:
    if nbytes:
        with translated():
            cl().enqueue_fill_buffer(queue, slot.memory, np.uint8(0), slot.offset, nbytes)


def _too_short(name: str, needed: int, held: int) -> InvalidResource:
    return InvalidResource(f"`{name}` needs {needed} bytes, its memory has {held}", fix="allocate at least that much.")
