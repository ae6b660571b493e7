"""An emulated driver that is ready for work: a context, a stream and a pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.machine_options import MachineOptions
from vyre.adapters.cuda.seam import Context, CudaCallError, DeviceAddress, HostBlock, Pool, Stream


class Rig(NamedTuple):
    """A driver whose primary context is current."""

    driver: MachineDriver
    context: Context
    stream: Stream
    pool: Pool

    def device(self, nbytes: int, stream: Stream | None = None) -> DeviceAddress:
        return self.driver.mem_alloc_async(nbytes, self.pool, stream or self.stream)

    def pinned(self, data: bytes) -> HostBlock:
        block = self.driver.host_alloc(len(data))
        block.view[:] = data
        return block

    def upload(self, data: bytes, stream: Stream | None = None) -> DeviceAddress:
        """Fresh device memory that will hold ``data``."""
        address = self.device(len(data), stream)
        block = self.pinned(data)
        self.driver.copy_to_device(address, block.address, len(data), stream or self.stream)
        return address

    def download(self, address: DeviceAddress, nbytes: int, stream: Stream | None = None) -> bytes:
        """What the memory holds when the stream gets there."""
        stream = stream or self.stream
        block = self.driver.host_alloc(nbytes)
        self.driver.copy_to_host(block.address, address, nbytes, stream)
        self.driver.stream_synchronize(stream)
        data = bytes(block.view)
        self.driver.host_free(block)
        return data


def rig(*, clock: Callable[[], float] | None = None, **options: Any) -> Rig:
    given = MachineOptions(**options)
    driver = MachineDriver(given) if clock is None else MachineDriver(given, clock=clock)
    driver.init()
    context = driver.primary_retain(0)
    driver.set_current(context)
    return Rig(driver, context, driver.stream_create(), driver.pool_create(0))


def code_of(call: Callable[[], object]) -> int:
    """The code that ``call`` fails with."""
    with pytest.raises(CudaCallError) as failure:
        call()
    return failure.value.code
