"""Resident memory of the reference backends: host arrays behind the port's handles."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vyre.adapters.reference.executor import ReferenceExecutor, aligned, allocate
from vyre.domain.binding import Binding, plan_bindings
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.ir.program import BackendId
from vyre.ports.backend import (
    Readback,
    ResidentBuffer,
    ResidentSequence,
    ResidentStep,
    Upload,
    check_ownership,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class HostBuffer(ResidentBuffer):
    """Zero-initialized bytes on the host."""

    __slots__ = ("data",)

    def __init__(self, backend: BackendId, nbytes: int, label: str | None) -> None:
        self.data: npt.NDArray[np.uint8] = allocate(nbytes)
        super().__init__(backend_id=backend, nbytes=nbytes, epoch=0, label=label)

    def _release(self) -> None:
        self.data = self.data[:0]


class HostMemory:
    """``ResidentMemory`` and ``ResidentExecutor`` on the host."""

    def __init__(self, backend: BackendId, executor: ReferenceExecutor) -> None:
        self._backend = backend
        self._executor = executor

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        """Implements ``ResidentMemory.allocate``."""
        if nbytes < 0:
            raise InvalidResource(f"an allocation of {nbytes} bytes", fix="allocate 0 bytes or more.")
        return HostBuffer(self._backend, nbytes, label)

    def upload(self, uploads: Sequence[Upload], /) -> None:
        """Implements ``ResidentMemory.upload``."""
        targets = [self._range(u.buffer, u.offset, u.data.nbytes) for u in uploads]
        for target, upload in zip(targets, uploads, strict=True):
            target.data[:] = upload.data

    def download(self, reads: Sequence[Readback], /) -> None:
        """Implements ``ResidentMemory.download``."""
        sources = [self._range(r.buffer, r.offset, r.into.nbytes) for r in reads]
        for source, read in zip(sources, reads, strict=True):
            read.into[:] = source.data

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        """Implements ``ResidentExecutor.run``."""
        started = time.perf_counter_ns()
        for step in sequence.prefix:
            self._step(step)
        for _ in range(sequence.repeat_count):
            for step in sequence.repeated:
                self._step(step)
        self.download(sequence.reads)
        return DispatchTiming(time.perf_counter_ns() - started)

    def _host(self, buffer: ResidentBuffer) -> HostBuffer:
        check_ownership(self._backend, 0, (buffer,))
        assert isinstance(buffer, HostBuffer)
        return buffer

    def _range(self, buffer: ResidentBuffer, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        host = self._host(buffer)
        if offset < 0 or offset + nbytes > host.nbytes:
            raise InvalidResource(
                f"bytes {offset}..{offset + nbytes} of {host!r}", fix=f"stay within its {host.nbytes} bytes."
            )
        return host.data[offset : offset + nbytes]

    def _step(self, step: ResidentStep) -> None:
        import numpy as np

        plan = plan_bindings(step.program)
        if len(step.resources) != len(plan.bindings):
            raise InvalidInput(
                f"{len(step.resources)} resources for {len(plan.bindings)} buffers",
                fix="pass one per non-workgroup buffer, in binding order.",
            )
        arrays: list[npt.NDArray[np.uint8]] = []
        writers: dict[int, str] = {}
        users: dict[int, str] = {}
        for binding, resource in zip(plan.bindings, step.resources, strict=True):
            name = binding.buffer.name
            if isinstance(resource, ResidentBuffer):
                host = self._host(resource)
                arrays.append(_fitted(binding, host.data))
                other = writers.get(id(host)) or (users.get(id(host)) if binding.buffer.is_writable else None)
                if other is not None:
                    raise InvalidResource(
                        f"{host!r} is bound to `{other}` and `{name}`, and written through one of them",
                        fix="bind separate memory.",
                    )
                users[id(host)] = name
                if binding.buffer.is_writable:
                    writers[id(host)] = name
            elif binding.buffer.is_writable:
                raise InvalidResource(f"`{name}` is written, but bound to host bytes", fix="bind a resident buffer.")
            else:
                arrays.append(np.frombuffer(resource, np.uint8))
        self._launch(step, arrays)

    def _launch(self, step: ResidentStep, arrays: list[npt.NDArray[np.uint8]]) -> None:
        plan = plan_bindings(step.program)
        counts = {
            b.buffer.name: data.nbytes // b.element_size
            for b, data in zip(plan.bindings, arrays, strict=True)
            if b.input_index is None and b.buffer.count == 0 and b.buffer.like is None
        }
        config: DispatchConfig = step.config
        if counts:
            config = replace(config, output_counts={**counts, **(config.output_counts or {})})
        pipeline, _ = self._executor.pipeline(step.program, config)
        launch = pipeline.launch(tuple(arrays[i].nbytes for i in plan.inputs))
        memory: dict[str, npt.NDArray[np.uint8]] = {}
        for binding, data, nbytes in zip(plan.bindings, arrays, launch.nbytes, strict=True):
            if data.nbytes < nbytes:
                raise InvalidResource(
                    f"`{binding.buffer.name}` needs {nbytes} bytes, its memory has {data.nbytes}",
                    fix="allocate at least that much.",
                )
            memory[binding.buffer.name] = aligned(data[:nbytes], binding.element_size)  # copies host bytes only
            if binding.input_index is None:
                memory[binding.buffer.name].fill(0)
        pipeline.run(memory, launch)


def _fitted(binding: Binding, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns the bytes that the program may see: the static length, or whole elements."""
    if binding.static_nbytes is not None:
        if data.nbytes < binding.static_nbytes:
            raise InvalidResource(
                f"`{binding.buffer.name}` needs {binding.static_nbytes} bytes, its memory has {data.nbytes}",
                fix="allocate at least that much.",
            )
        return data[: binding.static_nbytes]
    return data[: data.nbytes - data.nbytes % binding.element_size]
