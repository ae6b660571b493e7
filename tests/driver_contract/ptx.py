"""The code that cases load."""

from __future__ import annotations

from typing import Final

from driver_contract.rig import AnyRig
from vyre.adapters.cuda.seam import Kernel, LaunchShape, ParameterBlock, ParameterPlace
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
GUARDED: Final = """
// adds its last argument to the words of a buffer, as many as the second says; blocks of 64
.visible .entry guarded(
    .param .u64 guarded_p0,
    .param .u32 guarded_p1,
    .param .align 16 .b8 guarded_p2[16]
)
.reqntid 64, 1, 1
{
    .reg .pred %p;
    .reg .b32 %r<7>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [guarded_p0];
    ld.param.u32 %r1, [guarded_p1];
    ld.param.u32 %r5, [guarded_p2+8];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    mul.wide.u32 %rd2, %r2, 4;
    cvta.to.global.u64 %rd3, %rd1;
    add.u64 %rd3, %rd3, %rd2;
    ld.global.u32 %r6, [%rd3];
    add.u32 %r6, %r6, %r5;
    st.global.u32 [%rd3], %r6;
    ret;
}
"""
_SIZES: Final = {"Q": 8, "I": 4, "16s": 16}


def image(*bodies: str, header: str = HEADER) -> bytes:
    return (header + "".join(bodies)).encode() + b"\0"


def load(rig: AnyRig, body: str, name: str) -> Kernel:
    return rig.driver.library_kernel(rig.driver.library_load(image(body)).library, name)


def parameter_block(formats: str, *values: int | bytes) -> ParameterBlock:
    """Parameters at their natural places; ``formats`` as in ``struct``, separated by spaces if not single letters."""
    slots: list[ParameterPlace] = []
    end = 0
    for form in formats.split() if " " in formats else formats:
        size = _SIZES[form]
        offset = -(-end // size) * size
        slots.append(ParameterPlace(offset, size, form))
        end = offset + size
    made = ParameterBlock(slots)
    made.pack(*values)
    return made


def launch_shape(blocks: int = 1, threads: int = 32, shared: int = 0, *, cooperative: bool = False) -> LaunchShape:
    dims: tuple[Dim3, Dim3] = (blocks, 1, 1), (threads, 1, 1)
    return LaunchShape(*dims, shared, cooperative)
