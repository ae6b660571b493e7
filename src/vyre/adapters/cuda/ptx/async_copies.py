"""Asynchronous copies, lane by lane, without the copy engine.

A copy captures bytes where it starts and writes them where it is waited for.  If nothing writes the source meanwhile,
the whole copy is made at the wait; else, if nothing accesses the destination meanwhile, it is made at the start.
Otherwise the bytes are kept in local memory, for which their number must be bounded.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cuda.ptx import memory
from vyre.adapters.cuda.ptx.context import Copy, Kernel, Tag
from vyre.adapters.cuda.ptx.operands import Address, Register
from vyre.adapters.cuda.ptx.values import Value, in_register
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.accesses import Touch
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, AsyncWait

LOCAL_LIMIT: Final = 16_384
"""The number of bytes that a lane may keep for one copy."""


def issue(k: Kernel, stmt: AsyncLoad | AsyncStore, offset: Value, size: Value) -> None:
    """Starts a copy: clips it to the destination and records it under its tag."""
    w = k.w
    selector, copies = _tag(k, stmt.tag)
    number, copy = copies[id(stmt)]
    room = _nbytes(k, stmt.destination)
    w.line(f"cvt.u64.u32 {copy.start}, {in_register(w, offset)};")
    w.line(f"cvt.u64.u32 {copy.nbytes}, {in_register(w, size)};")
    if isinstance(stmt, AsyncStore):
        beyond = w.emit("p", "setp.gt.u64", copy.start, room)
        room = w.emit("rd", "selp.b64", 0, w.emit("rd", "sub.u64", room, copy.start), beyond)
    fewer = w.emit("p", "setp.lt.u64", copy.nbytes, room)
    w.line(f"selp.b64 {copy.nbytes}, {copy.nbytes}, {room}, {fewer};")
    if copy.local is not None or copy.at_once:
        _copy(k, copy, to_local=copy.local is not None)
    w.line(f"mov.b32 {selector}, {number};")


def wait(k: Kernel, stmt: AsyncWait) -> None:
    """Writes the captured bytes of the copy that this lane started, even if several copies share the tag."""
    w = k.w
    selector, copies = _tag(k, stmt.tag)
    sole = k.copy_spans.sole(stmt)
    if sole is not None or len(copies) == 1:
        (_, copy) = next(iter(copies.values())) if sole is None else copies[id(sole)]
        if not copy.at_once:
            _copy(k, copy)
        return
    end = w.label()
    for number, copy in copies.values():
        if copy.at_once:
            continue
        following = w.label()
        w.jump_if("ne.u32", selector, number, following)
        _copy(k, copy)
        w.line(f"bra {end};")
        w.place(following)
    w.place(end)


def _tag(k: Kernel, tag: str) -> Tag:
    copies_of_tag = k.copies.get(tag)
    if copies_of_tag is None:
        starts = k.copy_spans.by_tag[tag]
        copies = {id(stmt): (number, _plan(k, stmt)) for number, stmt in enumerate(starts)}
        copies_of_tag = k.copies[tag] = Tag(k.w.register("r"), copies)
    return copies_of_tag


def _copy(k: Kernel, copy: Copy, *, to_local: bool = False) -> None:
    """Copies byte after byte, directly or through a local array; bytes past the end of the source are zero."""
    w, stmt = k.w, copy.stmt
    w.mark((stmt.loc,))
    count = w.emit("rd", "mov.b64", 0)
    again, end = w.label(), w.label()
    w.place(again)
    w.jump_if("ge.u64", count, copy.nbytes, end)
    if copy.local is not None and not to_local:
        byte = w.emit("r", "ld.local.u8", Address(w.emit("rd", "add.u64", copy.local, count)))
    else:
        index = w.emit("rd", "add.u64", count, copy.start) if isinstance(stmt, AsyncLoad) else count
        inside = w.emit("p", "setp.lt.u64", index, _nbytes(k, stmt.source))
        space, where = _byte_address(k, stmt.source, index)
        byte = w.emit("r", "mov.b32", 0)
        w.line(f"@{inside} ld.{space}.u8 {byte}, {where};")
    if copy.local is not None and to_local:
        w.line(f"st.local.u8 {Address(w.emit('rd', 'add.u64', copy.local, count))}, {byte};")
    else:
        index = w.emit("rd", "add.u64", count, copy.start) if isinstance(stmt, AsyncStore) else count
        space, where = _byte_address(k, stmt.destination, index)
        w.line(f"st.{space}.u8 {where}, {byte};")
    w.line(f"add.u64 {count}, {count}, 1;")
    w.line(f"bra {again};")
    w.place(end)


def _byte_address(k: Kernel, name: str, offset: Register) -> tuple[str, Address]:
    w = k.w
    if k.buffers[name].is_workgroup:
        base = w.emit("r", "mov.u32", memory.shared_symbol(k))
        low = w.emit("r", "cvt.u32.u64", offset)
        return "shared", Address(w.emit("r", "add.u32", base, low), k.shared.offsets[name])
    if name in k.inlined:
        base = w.emit("rd", "mov.b64", k.uniform_parameter(name))
        return "param", Address(w.emit("rd", "add.u64", base, offset))
    return "global", Address(w.emit("rd", "add.u64", k.base(name), offset))


def _nbytes(k: Kernel, name: str) -> Register:
    """Returns the length of a buffer in bytes, in a 64-bit register."""
    size = element_of(k.buffers[name]).size

    def make() -> Register:
        length = k.length(name)
        if isinstance(length, int):
            return k.w.emit("rd", "mov.b64", length * size)
        return k.w.emit("rd", "mul.wide.u32", length, size)

    return k.w.once(f"bytes {name}", make)


def _plan(k: Kernel, stmt: AsyncLoad | AsyncStore) -> Copy:
    """Decides where the copy is made, and whether its bytes must be kept in between."""
    start, nbytes = k.w.register("rd"), k.w.register("rd")
    if stmt.source != stmt.destination:  # a copy within one buffer changes its own source
        if k.copy_spans.left_alone(stmt, stmt.source, (Touch.WRITE, Touch.ATOMIC)):
            return Copy(stmt, start, nbytes, None, at_once=False)
        if k.copy_spans.left_alone(stmt, stmt.destination, tuple(Touch)):
            return Copy(stmt, start, nbytes, None, at_once=True)
    sizes = [stmt.size.bits if isinstance(stmt.size, Literal) else None, k.buffers[stmt.destination].static_nbytes]
    bound = min((size for size in sizes if size is not None), default=LOCAL_LIMIT + 1)
    if bound > LOCAL_LIMIT:
        raise UnsupportedFeature(
            feature=f"an asynchronous copy of more than {LOCAL_LIMIT} bytes with both buffers in use meanwhile",
            backend="cuda",
            fix="give a smaller size as a literal, or leave one of the buffers alone until the wait.",
        )
    return Copy(stmt, start, nbytes, k.w.local_array(max(1, bound)), at_once=False)
