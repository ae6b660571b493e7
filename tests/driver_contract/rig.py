"""A driver that is ready for work: a context, a stream and a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from vyre.adapters.cuda.seam import Context, CudaCallError, CudaDriver, DeviceAddress, HostBlock, Pool, Stream

D = TypeVar("D", bound=CudaDriver)


class DriverRig(NamedTuple, Generic[D]):
    """A driver whose primary context is current."""

    driver: D
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


AnyRig: TypeAlias = DriverRig[CudaDriver]


def make_rig(driver: D) -> DriverRig[D]:
    """``driver`` with its primary context retained and current in this thread."""
    driver.init()
    context = driver.primary_retain(0)
    driver.set_current(context)
    return DriverRig(driver, context, driver.stream_create(), driver.pool_create(0))


@contextmanager
def closing_rig(driver: CudaDriver) -> Iterator[AnyRig]:
    """A rig whose context is released in the end, with all that is in it."""
    rig = make_rig(driver)
    try:
        yield rig
    finally:
        driver.set_current(rig.context)
        driver.context_synchronize()
        driver.stream_destroy(rig.stream)
        driver.pool_destroy(rig.pool)
        driver.set_current(0)
        driver.primary_release(0)


def failure_of(call: Callable[[], object]) -> CudaCallError:
    """What ``call`` fails with."""
    try:
        returned = call()
    except CudaCallError as failure:
        return failure
    raise AssertionError(f"the call did not fail, but returned {returned!r}")


def code_of(call: Callable[[], object]) -> int:
    """The code that ``call`` fails with."""
    return failure_of(call).code
