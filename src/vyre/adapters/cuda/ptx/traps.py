"""Traps: the lane records itself and ends.

The record is eight words: flag, address, 1-based index of the tag, global id x, y, z, a lock, 0.  It keeps the trapping
lane of the lowest linear global id, whatever the order in which lanes trap.
"""

from __future__ import annotations

from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.operands import Address
from vyre.adapters.cuda.ptx.values import Value, in_register


def trap(k: Kernel, address: Value, tag: str) -> None:
    """Writes a trap with a tag and the value ``address``."""
    k.uses_trap = True
    if tag not in k.trap_tags:
        k.trap_tags.append(tag)
    w = k.w
    record, where = k.parameter_address("trap"), in_register(w, address)
    code = w.emit("r", "mov.b32", k.trap_tags.index(tag) + 1)
    mine = [k.global_id(axis) for axis in range(3)]
    again, busy = w.label(), w.label()
    one, zero = w.emit("r", "mov.b32", 1), w.emit("r", "mov.b32", 0)
    w.place(again)
    lock = w.emit("r", "atom.acquire.gpu.global.cas.b32", Address(record, 24), zero, one)
    taken = w.emit("p", "setp.ne.u32", lock, 0)
    # The critical section comes first in the text, so that waiting lanes of the same warp do not block the holder.
    w.line(f"@{taken} bra {busy};")
    flag = w.emit("r", "ld.relaxed.gpu.global.u32", Address(record))
    lower = w.emit("p", "setp.eq.u32", flag, 0)
    equal = w.emit("p", "setp.ne.u32", flag, 0)
    for axis in (2, 1, 0):
        theirs = w.emit("r", "ld.relaxed.gpu.global.u32", Address(record, 12 + 4 * axis))
        less = w.emit("p", "setp.lt.u32", mine[axis], theirs)
        lower = w.emit("p", "or.pred", lower, w.emit("p", "and.pred", equal, less))
        equal = w.emit("p", "and.pred", equal, w.emit("p", "setp.eq.u32", mine[axis], theirs))
    for offset, word in ((4, where), (8, code), (12, mine[0]), (16, mine[1]), (20, mine[2]), (0, one)):
        w.line(f"@{lower} st.relaxed.gpu.global.u32 [{record}+{offset}], {word};")
    w.line("fence.acq_rel.gpu;")
    w.line(f"st.relaxed.gpu.global.u32 [{record}+24], {zero};")
    k.leave()
    w.place(busy)
    w.line(f"bra {again};")
