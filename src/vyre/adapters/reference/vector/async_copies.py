"""Async copies: bytes are captured lane by lane at the start, and written lane by lane at the wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vyre.adapters.reference.vector.chunk import Captured, Chunk
from vyre.adapters.reference.vector.lanes_context import Context
from vyre.adapters.reference.vector.storage import Storage
from vyre.adapters.reference.vector.values import U32, EvaluateWord, full
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

Execute: TypeAlias = Callable[[Chunk, Context], "Context | None"]


def async_copy(copy: AsyncLoad | AsyncStore, offset: EvaluateWord, size: EvaluateWord) -> Execute:
    """Captures bytes [offset, offset + size) of the source for byte 0 of the destination of a load, and the first
    ``size`` bytes for byte ``offset`` of that of a store; zeros past the end of the source.
    """
    destination = copy.destination

    def execute(chunk: Chunk, ctx: Context) -> Context:
        starts, sizes = _numbers(offset, chunk, ctx), _numbers(size, chunk, ctx)
        room = _nbytes(chunk.buffers[destination])
        captured = chunk.pending.setdefault(copy.tag, {})
        for lane, start, length in zip(ctx.numbers.tolist(), starts, sizes, strict=True):
            first, to = (start, 0) if isinstance(copy, AsyncLoad) else (0, start)
            length = max(0, min(length, room - to))
            payload = _bytes_of(chunk, copy.source, lane)[first : first + length].tobytes()
            captured[lane] = Captured(destination, to, payload.ljust(length, b"\0"))
        return ctx

    return execute


def async_wait(tag: str) -> Execute:
    """Writes the captured bytes, clipped to the destination."""

    def execute(chunk: Chunk, ctx: Context) -> Context:
        captured = chunk.pending[tag]
        for lane in ctx.numbers.tolist():
            destination, start, payload = captured.pop(lane)
            data = _bytes_of(chunk, destination, lane)
            end = min(start + len(payload), len(data))
            if start < end:
                data[start:end] = np.frombuffer(payload[: end - start], np.uint8)
        return ctx

    return execute


def _numbers(evaluate: EvaluateWord, chunk: Chunk, ctx: Context) -> list[int]:
    numbers: list[int] = full(evaluate(chunk, ctx), ctx, U32).reshape(-1).tolist()
    return numbers


def _nbytes(storage: Storage) -> int:
    return storage.count * storage.itemsize


def _bytes_of(chunk: Chunk, name: str, lane: int) -> NDArray[np.uint8]:
    """Returns the bytes of a buffer as one lane sees it."""
    storage = chunk.buffers[name]
    if not storage.per_group:
        return storage.array.view(np.uint8)[: _nbytes(storage)]
    group = lane // (chunk.grid.lanes // chunk.grid.dims[0])
    return storage.array[group * storage.count : (group + 1) * storage.count].view(np.uint8)
