"""The code that cases load."""

from __future__ import annotations

from typing import Final

from support.driver_rig import AnyRig
from support.machine_kernels import LOAD, SHARED, STORE, image, shape
from vyre.adapters.cuda.seam import Kernel, LaunchShape, ParameterBlock, ParameterSlot

__all__ = ["GUARDED", "LOAD", "SHARED", "STORE", "image", "launch_shape", "load", "parameter_block"]

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


def load(rig: AnyRig, body: str, name: str) -> Kernel:
    return rig.driver.library_kernel(rig.driver.library_load(image(body)).library, name)


def parameter_block(formats: str, *values: int | bytes) -> ParameterBlock:
    """Parameters at their natural places; ``formats`` as in ``struct``, separated by spaces if not single letters."""
    slots: list[ParameterSlot] = []
    end = 0
    for form in formats.split() if " " in formats else formats:
        size = _SIZES[form]
        offset = -(-end // size) * size
        slots.append(ParameterSlot(offset, size, form))
        end = offset + size
    made = ParameterBlock(slots)
    made.pack(*values)
    return made


def launch_shape(blocks: int = 1, threads: int = 32, shared: int = 0, *, cooperative: bool = False) -> LaunchShape:
    return shape(blocks, threads, shared, cooperative=cooperative)
