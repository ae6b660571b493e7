"""PTX texts for tests of the emulated driver, and launching them."""

from __future__ import annotations

from typing import Final

from support.machine_driver import Rig
from vyre.adapters.cuda.seam import Kernel, Launcher, LaunchShape, ParameterBlock, ParameterSlot, Stream
from vyre.domain.ir.program import Dim3

HEADER: Final = ".version 7.8\n.target sm_75\n.address_size 64\n"

STORE: Final = """
// stores its second argument to every word of a buffer, one lane for each
.visible .entry store(.param .u64 store_p0, .param .u32 store_p1)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [store_p0];
    ld.param.u32 %r1, [store_p1];
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
LOAD: Final = """
// copies the first word of one buffer to another, with one lane
.visible .entry load(.param .u64 load_p0, .param .u64 load_p1)
.reqntid 1, 1, 1
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [load_p0];
    ld.param.u64 %rd2, [load_p1];
    ld.global.u32 %r1, [%rd1];
    st.global.u32 [%rd2], %r1;
    ret;
}
"""
TRAP: Final = """
.visible .entry trapping()
{
    trap;
    ret;
}
"""
SHARED: Final = """
.extern .shared .align 16 .b8 dynamic[];
.visible .entry shared_user()
{
    .shared .align 16 .b8 fixed[4096];
    .reg .b32 %r<2>;
    mov.u32 %r1, 0;
    st.shared.u32 [fixed], %r1;
    st.shared.u32 [dynamic], %r1;
    ret;
}
"""

POINTER_AND_WORD: Final = (ParameterSlot(0, 8, "Q"), ParameterSlot(8, 4, "I"))
TWO_POINTERS: Final = (ParameterSlot(0, 8, "Q"), ParameterSlot(8, 8, "Q"))


def image(*bodies: str, header: str = HEADER) -> bytes:
    return (header + "".join(bodies)).encode() + b"\0"


def load_kernel(rig: Rig, body: str, name: str) -> Kernel:
    library = rig.driver.library_load(image(body)).library
    return rig.driver.library_kernel(library, name)


def block(slots: tuple[ParameterSlot, ...], *values: int) -> ParameterBlock:
    made = ParameterBlock(slots)
    made.pack(*values)
    return made


def shape(grid: int = 1, threads: int = 32, shared: int = 0, *, cooperative: bool = False) -> LaunchShape:
    dims: tuple[Dim3, Dim3] = (grid, 1, 1), (threads, 1, 1)
    return LaunchShape(*dims, shared, cooperative)


def store(rig: Rig, kernel: Kernel, target: int, value: int, words: int = 32, stream: Stream | None = None) -> Launcher:
    """A prepared launch of ``STORE`` over ``words`` words, a multiple of 32."""
    parameters = block(POINTER_AND_WORD, target, value)
    return rig.driver.prepare_launch(kernel, shape(words // 32), stream or rig.stream, parameters)
