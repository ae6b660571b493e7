"""Asynchronous dispatches whose handle is dropped: they run on, and their memory lives as long as their run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from ctypes import c_int32
from typing import Any
from weakref import ref

import numpy as np
import pytest

from support.cpu.backends import ADD, ENDLESS, CountedTools, backend_of
from support.cpu.pool import until
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.pool import layout
from vyre.adapters.cpu.pool.job import Job
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.adapters.cpu.runtime.pending import CpuAsync, CpuPending
from vyre.domain.ir.program import Program
from vyre.ports.backend import Backend
from vyre.ports.requests import DispatchRequest

pytestmark = NEEDS_LLVM

WORDS = 64


@pytest.fixture
def backend() -> Iterator[Backend]:
    with backend_of(CountedTools().tools, threads=2) as made:
        yield made


def submitted(backend: Backend, program: Program) -> CpuPending:
    executor = backend.async_executor
    assert isinstance(executor, CpuAsync)
    return executor.submit(DispatchRequest(program, (memoryview(bytes(4 * WORDS)),)))


def memory_of(pending: CpuPending) -> ref[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]:
    assert pending._slot is not None
    kept: Any = pending._slot.job.keep
    return ref(kept[1])


def pool_of(pending: CpuPending) -> WorkerPool:
    return pending._device.pool


def job_of(pending: CpuPending) -> Job:
    assert pending._slot is not None
    return pending._slot.job


def test_a_handle_that_is_dropped_after_the_end_frees_its_memory(backend: Backend) -> None:
    pending = submitted(backend, ADD)
    memory = memory_of(pending)
    until(pending.done)
    del pending
    gc.collect()
    assert memory() is None


def test_memory_of_a_dropped_handle_lives_as_long_as_its_kernel(backend: Backend) -> None:
    pending = submitted(backend, ENDLESS)
    memory, group = memory_of(pending), job_of(pending).group
    pool = pool_of(pending)
    del pending
    gc.collect()
    until(lambda: c_int32.from_address(pool.block + layout.Pool.queued).value == 0)  # a worker runs it
    gc.collect()
    assert memory() is not None
    (job,) = pool.submitted(group)
    assert not job.done
    del job
    assert backend.lifecycle is not None
    backend.lifecycle.close()
    gc.collect()
    assert memory() is None


def test_dropped_handles_leave_nothing_behind(backend: Backend) -> None:
    assert backend.lifecycle is not None
    first = submitted(backend, ADD)
    pool = pool_of(first)  # the sessions of this process share it, and it keeps the records of earlier tests
    before = pool.counts["records"]
    del first
    for _ in range(5):
        memories = [memory_of(submitted(backend, ADD)) for _ in range(200)]
        backend.lifecycle.flush()
        gc.collect()
        assert [memory() for memory in memories] == [None] * 200
    assert pool.counts["records"] <= before + 256  # those of 200 dispatches at once, in whole groups of records


def test_flushing_waits_for_what_nobody_holds(backend: Backend) -> None:
    assert backend.lifecycle is not None
    pending = submitted(backend, ADD)
    job = job_of(pending)
    del pending
    backend.lifecycle.flush()
    assert job.done
