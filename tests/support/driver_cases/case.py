"""A case of the driver seam's contract: what it needs, and the driver it is judged on."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, NamedTuple

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.seam import (
    Context,
    CudaCallError,
    CudaDriver,
    DeviceAddress,
    Event,
    HostBlock,
    Kernel,
    LaunchShape,
    ParameterBlock,
    ParameterSlot,
    Pool,
    Stream,
)
from vyre.domain.ir.program import Dim3

ORDINAL: Final = 0


class Case(NamedTuple):
    """``executes``: looks at what kernels did, or at what only a compiler finds out.

    ``invents_handles``: names objects that do not exist any more, or never did.  A real driver follows such a handle
    into memory, so the case is no contract of one; drivers that validate handles must answer it.
    """

    id: str
    run: Callable[[Subject], None]
    executes: bool
    invents_handles: bool


class Suite:
    """Cases in the order of their definition; the name of the function is the id."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def case(
        self, *, executes: bool = False, invents_handles: bool = False
    ) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
        def add(run: Callable[[Subject], None]) -> Callable[[Subject], None]:
            self.cases.append(Case(run.__name__, run, executes, invents_handles))
            return run

        return add


class Subject:
    """A driver with the primary context current, one stream and one pool.  A context manager: what its methods made
    is released at its end, last first."""

    def __init__(self, driver: CudaDriver) -> None:
        self.driver: Final = driver

    def __enter__(self) -> Subject:
        driver = self.driver
        self._cleanup: ExitStack = ExitStack()
        driver.init()
        self.context: Context = driver.primary_retain(ORDINAL)
        self._cleanup.callback(driver.primary_release, ORDINAL)
        driver.set_current(self.context)
        self.pool: Pool = driver.pool_create(ORDINAL)
        self._cleanup.callback(driver.pool_destroy, self.pool)
        self.stream: Stream = self.new_stream()
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.set_current(self.context)
        self.driver.context_synchronize()
        self._cleanup.close()

    def later(self, release: Callable[[], object]) -> None:
        """Call ``release`` at the end, before what was made earlier is released."""
        self._cleanup.callback(release)

    # ---- things to work with
    def new_stream(self) -> Stream:
        stream = self.driver.stream_create()
        self.later(lambda: self.driver.stream_destroy(stream))
        return stream

    def new_event(self, *, timing: bool = False, blocking: bool = False) -> Event:
        event = self.driver.event_create(timing=timing, blocking=blocking)
        self.later(lambda: self.driver.event_destroy(event))
        return event

    def device(self, nbytes: int) -> DeviceAddress:
        """Memory of the pool, its content undefined; usable on every stream."""
        address = self.driver.mem_alloc_async(nbytes, self.pool, self.stream)
        self.driver.stream_synchronize(self.stream)
        self.later(lambda: self.driver.mem_free_async(address, self.stream))
        return address

    def pinned(self, data: bytes) -> HostBlock:
        block = self.driver.host_alloc(len(data))
        self.later(lambda: self.driver.host_free(block))
        block.view[:] = data
        return block

    def upload(self, data: bytes) -> DeviceAddress:
        """Memory that holds ``data``."""
        address = self.device(len(data))
        self.driver.copy_to_device(address, self.pinned(data).address, len(data), self.stream)
        self.driver.stream_synchronize(self.stream)
        return address

    def download(self, address: DeviceAddress, nbytes: int, stream: Stream | None = None) -> bytes:
        """What the memory holds when ``stream`` gets there."""
        stream = stream or self.stream
        block = self.pinned(bytes(nbytes))
        self.driver.copy_to_host(block.address, address, nbytes, stream)
        self.driver.stream_synchronize(stream)
        return bytes(block.view)

    def kernel(self, text: str, name: str) -> Kernel:
        library = self.driver.library_load(image(text)).library
        self.later(lambda: self.driver.library_unload(library))
        return self.driver.library_kernel(library, name)

    def launch(
        self, kernel: Kernel, shape: LaunchShape, parameters: ParameterBlock, stream: Stream | None = None
    ) -> None:
        self.driver.prepare_launch(kernel, shape, stream or self.stream, parameters)()

    # ---- failures
    def fails(self, code: Result, call: Callable[[], object]) -> CudaCallError:
        """``call`` must fail with ``code``, and the error must say what was called."""
        try:
            call()
        except CudaCallError as error:
            assert error.code == code, f"{error} where {code.name} is expected"
            assert error.name == f"CUDA_ERROR_{code.name}", error.name
            assert error.call.startswith("cu"), error.call
            return error
        raise AssertionError(f"succeeded where {code.name} is expected")

    def in_thread(self, work: Callable[[], None]) -> None:
        """Run ``work`` in a new thread, where no context is current; what it raises is raised here."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:  # handed over to the caller
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if raised:
            raise raised[0]


# ---------------------------------------------------------------- kernels and their parameters
HEADER: Final = ".version 7.8\n.target sm_75\n.address_size 64\n"
STORE: Final = """
// out[global id] = value
.visible .entry store(.param .u64 store_out, .param .u32 store_value)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [store_out];
    ld.param.u32 %r1, [store_value];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    mul.wide.u32 %rd2, %r2, 4;
    cvta.to.global.u64 %rd3, %rd1;
    add.u64 %rd3, %rd3, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
"""
SUM: Final = """
// *out = a + b + c + d, all of different sizes and offsets
.visible .entry sum(.param .u64 sum_out, .param .u64 sum_a, .param .u32 sum_b, .param .u32 sum_c,
                    .param .align 16 .b8 sum_d[32])
.reqntid 1, 1, 1
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [sum_out];
    ld.param.u64 %rd2, [sum_a];
    ld.param.u32 %r1, [sum_b];
    ld.param.u32 %r2, [sum_c];
    ld.param.u64 %rd3, [sum_d+24];
    cvt.u64.u32 %rd4, %r1;
    cvt.u64.u32 %rd5, %r2;
    add.u64 %rd6, %rd2, %rd3;
    add.u64 %rd6, %rd6, %rd4;
    add.u64 %rd6, %rd6, %rd5;
    cvta.to.global.u64 %rd7, %rd1;
    st.global.u64 [%rd7], %rd6;
    ret;
}
"""
SHARED: Final = """
// each lane hands its thread id to the lane on its right through dynamic shared memory
.extern .shared .align 16 .b8 dynamic[];
.visible .entry hand_on(.param .u64 hand_on_out)
{
    .shared .align 16 .b8 fixed[64];
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [hand_on_out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, dynamic;
    shl.b32 %r4, %r1, 2;
    add.u32 %r5, %r3, %r4;
    st.shared.u32 [%r5], %r1;
    mov.u32 %r7, fixed;
    st.shared.u32 [%r7], %r2;
    bar.sync 0;
    add.u32 %r6, %r1, 1;
    rem.u32 %r6, %r6, %r2;
    shl.b32 %r6, %r6, 2;
    add.u32 %r6, %r3, %r6;
    ld.shared.u32 %r6, [%r6];
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd2, %rd2, %rd3;
    st.global.u32 [%rd2], %r6;
    ret;
}
"""
STORE_SLOTS: Final = (ParameterSlot(0, 8, "Q"), ParameterSlot(8, 4, "I"))
SUM_SLOTS: Final = (
    ParameterSlot(0, 8, "Q"),
    ParameterSlot(8, 8, "Q"),
    ParameterSlot(16, 4, "I"),
    ParameterSlot(20, 4, "I"),
    ParameterSlot(32, 32, "32s"),
)


def image(*texts: str, header: str = HEADER) -> bytes:
    return (header + "".join(texts)).encode() + b"\0"


def packed(slots: tuple[ParameterSlot, ...], *values: int | bytes) -> ParameterBlock:
    block = ParameterBlock(slots)
    block.pack(*values)
    return block


def shape(blocks: int = 1, threads: int = 1, *, dynamic_shared: int = 0, cooperative: bool = False) -> LaunchShape:
    grid: Dim3 = (blocks, 1, 1)
    return LaunchShape(grid, (threads, 1, 1), dynamic_shared, cooperative)


class Pageable:
    """Host memory that the driver does not know."""

    def __init__(self, data: bytes) -> None:
        self._memory = ctypes.create_string_buffer(data, len(data))
        self.address: Final = ctypes.addressof(self._memory)

    @property
    def data(self) -> bytes:
        return self._memory.raw

    @data.setter
    def data(self, data: bytes) -> None:
        self._memory.raw = data
