"""Barriers of the workgroup and of the grid, and the zeroing of workgroup memory at the start."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.memory import shared_symbol
from vyre.adapters.cuda.ptx.operands import Address, Register

_UNROLLED: Final = 4
_WORD: Final = 4


def workgroup(k: Kernel) -> None:
    """Writes a barrier of the workgroup."""
    k.w.line("bar.sync 0;")


def zero_shared(k: Kernel) -> None:
    """Writes the stores by which all lanes together zero the part of workgroup memory that must start as zero."""
    words = k.shared.zeroed // _WORD
    if not words:
        return
    w, threads = k.w, k.threads
    linear = k.linear_local_id()
    base = w.emit("r", "mov.u32", shared_symbol(k))
    zero = w.emit("r", "mov.b32", 0)
    start = w.emit("r", "mad.lo.u32", linear, _WORD, base) if isinstance(linear, Register) else base
    full, rest = divmod(words, threads)
    if full > _UNROLLED:
        again = w.label()
        end = w.emit("r", "add.u32", base, full * threads * _WORD)
        start = w.emit("r", "mov.b32", start)
        w.place(again)
        w.line(f"st.shared.b32 [{start}], {zero};")
        w.line(f"add.u32 {start}, {start}, {threads * _WORD};")
        w.jump_if("lt.u32", start, end, again)
        done = 0
    else:
        for number in range(full):
            w.line(f"st.shared.b32 [{start}+{number * threads * _WORD}], {zero};")
        done = full
    if rest:
        if isinstance(linear, Register):
            inside = w.emit("p", "setp.lt.u32", linear, rest)
            w.line(f"@{inside} st.shared.b32 [{start}+{done * threads * _WORD}], {zero};")
        else:
            w.line(f"st.shared.b32 [{start}+{done * threads * _WORD}], {zero};")
    workgroup(k)


def grid(k: Kernel) -> None:
    """Writes a barrier of all lanes of a cooperative launch.

    The first lane of each workgroup arrives at a counter that wraps to 0 with the last one, which then opens the next
    generation; the others spin on the generation.  The two words need zeroing once, not for each barrier.
    """
    k.uses_grid_barrier = True
    w = k.w
    words = k.parameter_address("barrier")
    last = w.once("last group", lambda: _last_group(k))
    workgroup(k)
    done, spin = w.label(), w.label()
    linear = k.linear_local_id()
    if isinstance(linear, Register):
        w.jump_if("ne.u32", linear, 0, done)
    opened = w.label()
    generation = w.emit("r", "ld.relaxed.gpu.global.u32", Address(words, 4))
    w.line("fence.acq_rel.gpu;")
    arrived = w.emit("r", "atom.relaxed.gpu.global.inc.u32", Address(words), last)
    w.jump_if("ne.u32", arrived, last, spin)
    w.line("fence.acq_rel.gpu;")
    following = w.emit("r", "add.u32", generation, 1)
    w.line(f"st.relaxed.gpu.global.u32 [{words}+4], {following};")
    w.line(f"bra {opened};")
    w.place(spin)
    seen = w.emit("r", "ld.acquire.gpu.global.u32", Address(words, 4))
    w.jump_if("eq.u32", seen, generation, spin)
    w.place(opened)
    w.line("fence.acq_rel.gpu;")
    w.place(done)
    workgroup(k)


def _last_group(k: Kernel) -> Register:
    """Returns the number of workgroups of the grid, less one."""
    w = k.w
    x, y, z = (k.group_count(axis) for axis in range(3))
    plane = w.emit("r", "mul.lo.u32", x, y)
    return w.emit("r", "sub.u32", w.emit("r", "mul.lo.u32", plane, z), 1)
