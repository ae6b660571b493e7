"""Handles of device memory: closed once, refused afterwards, and never lost silently."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from vyre.domain.errors import InvalidResource, UnsupportedFeature
from vyre.domain.ir.program import BackendId
from vyre.ports.backend import require
from vyre.ports.lifecycle import NullLifecycle
from vyre.ports.ownership import check_ownership
from vyre.ports.resident_buffer import ResidentBuffer

HERE = BackendId("here")


class CountingBuffer(ResidentBuffer):
    __slots__ = ("released",)

    def __init__(self, backend_id: BackendId = HERE, epoch: int = 0) -> None:
        super().__init__(backend_id=backend_id, nbytes=16, epoch=epoch, label="weights")
        self.released = 0

    def _release(self) -> None:
        self.released += 1


def test_many_threads_close_once() -> None:
    buffer = CountingBuffer()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: buffer.close(), range(64)))
    assert buffer.released == 1
    assert buffer.closed


def test_a_with_block_closes() -> None:
    with CountingBuffer() as buffer:
        assert not buffer.closed
    assert buffer.released == 1


def test_a_lost_buffer_warns_by_name() -> None:
    buffer = CountingBuffer()
    with pytest.warns(ResourceWarning, match="weights"):
        del buffer
        gc.collect()


def test_ownership_is_checked_by_backend_state_and_epoch() -> None:
    good, closed, old = CountingBuffer(), CountingBuffer(), CountingBuffer(epoch=1)
    foreign = CountingBuffer(BackendId("there"))
    closed.close()
    check_ownership(HERE, 0, [good])
    for bad, word in ((closed, "close"), (old, "epoch"), (foreign, "there")):
        with pytest.raises(InvalidResource, match=f"{word}.*Fix:"):
            check_ownership(HERE, 0, [good, bad])
    for buffer in (good, old, foreign):
        buffer.close()


def test_a_missing_facet_is_a_typed_error() -> None:
    assert require(3, feature="x", backend=HERE) == 3
    with pytest.raises(UnsupportedFeature, match=r"here.*teleport.*Fix:"):
        require(None, feature="teleport", backend=HERE)
    with pytest.raises(UnsupportedFeature, match="recovery"):
        NullLifecycle(HERE).recover()
