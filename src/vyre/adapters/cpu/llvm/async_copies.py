"""Asynchronous copies, lane by lane.

A copy captures bytes where it starts and writes them where it is waited for.  If nothing writes the source meanwhile,
the whole copy is made at the wait; else, if nothing accesses the destination meanwhile, it is made at the start.
Otherwise the bytes are kept in scratch memory.  Its size is a part of the kernel where few bytes are enough for every
launch; else the launch gives memory for as many as its buffers have.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from vyre.adapters.cpu.llvm.blocks import branch, for_each_lane, intrinsic
from vyre.adapters.cpu.llvm.captures import Capture, Copy, Moment, PerVector, Tag
from vyre.adapters.cpu.llvm.context import CAPTURES, Kernel
from vyre.adapters.cpu.llvm.values import SCALAR, Value
from vyre.domain.analysis.copy_spans import copy_spans
from vyre.domain.ir.accesses import Touch
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, AsyncWait

MOST_KEPT: Final = 1 << 26
"""The bytes of scratch memory that a kernel always has for what one copy captures in all lanes of a thread."""

_ANY_BUFFER: Final = 1 << 35
"""The bytes of the largest buffer."""


def start(k: Kernel, stmt: AsyncLoad | AsyncStore, offset: Value, size: Value) -> None:
    """Starts a copy: clips it to the destination and records it under its tag."""
    tag = _tag(k, stmt.tag)
    number, copy = tag.copies[id(stmt)]
    wide = k.vector_type("i64")
    first, nbytes = _wide(k, offset), _wide(k, size)
    room = k.splat("i64", _nbytes(k, stmt.destination))
    if isinstance(stmt, AsyncStore):
        room = _less(k, wide, room, first)
    nbytes = _least(k, wide, nbytes, room)
    _keep(k, copy.start, "i64", first)
    _keep(k, copy.nbytes, "i64", nbytes)
    if copy.moment is Moment.AT_START:
        for_each_lane(k, k.lane_mask(), lambda lane: _transfer(k, copy, lane))
    elif copy.moment is Moment.KEPT:
        for_each_lane(k, k.lane_mask(), lambda lane: _capture(k, copy, lane))
    if tag.selector is not None:
        _keep(k, tag.selector, "i32", k.splat("i32", str(number)))


def wait(k: Kernel, stmt: AsyncWait) -> None:
    """Writes the captured bytes of the copy that each lane started, even if several copies share the tag."""
    tag = _tag(k, stmt.tag)
    sole = copy_spans(k.program).sole(stmt)
    if sole is None and tag.selector is not None:
        for_each_lane(k, k.lane_mask(), lambda lane: _finish_chosen(k, tag, lane))
        return
    (_, copy) = next(iter(tag.copies.values())) if sole is None else tag.copies[id(sole)]
    if copy.moment is not Moment.AT_START:
        for_each_lane(k, k.lane_mask(), lambda lane: _finish(k, copy, lane))


def _finish_chosen(k: Kernel, tag: Tag, lane: str) -> None:
    """Finishes the copy that a lane started."""
    assert tag.selector is not None
    chosen = k.w.here(f"load i32, ptr {_place(k, tag.selector, 'i32', lane)}")
    for number, copy in tag.copies.values():
        if copy.moment is not Moment.AT_START:
            is_it = k.w.pure(f"icmp eq i32 {{}}, {number}", chosen)
            branch(k, is_it, lambda: _finish(k, copy, lane))  # noqa: B023  # it is called at once


def _finish(k: Kernel, copy: Copy, lane: str) -> None:
    if copy.moment is Moment.AT_WAIT:
        _transfer(k, copy, lane)
        return
    assert copy.captured is not None
    nbytes = _number(k, copy.nbytes, lane)
    captured = _number(k, copy.captured, lane)
    _write(k, _target(k, copy, lane), _payload(k, copy, lane), captured, nbytes)


def _transfer(k: Kernel, copy: Copy, lane: str) -> None:
    """Copies the bytes of one lane from the source to the destination."""
    nbytes = _number(k, copy.nbytes, lane)
    source, there = _source(k, copy, lane)
    _write(k, _target(k, copy, lane), source, _least(k, "i64", nbytes, there), nbytes)


def _capture(k: Kernel, copy: Copy, lane: str) -> None:
    """Copies the bytes of one lane from the source to scratch memory, as far as the source has them."""
    assert copy.captured is not None
    nbytes = _number(k, copy.nbytes, lane)
    source, there = _source(k, copy, lane)
    captured = _least(k, "i64", nbytes, there)
    move = intrinsic(k, "void", "memcpy.p0.p0.i64", "ptr", "ptr", "i64", "i1")
    k.w.line(f"{move}(ptr {_payload(k, copy, lane)}, ptr {source}, i64 {captured}, i1 false)")
    k.w.line(f"store i64 {captured}, ptr {_place(k, copy.captured, 'i64', lane)}")


def _write(k: Kernel, target: str, source: str, there: str, nbytes: str) -> None:
    """Writes ``nbytes`` bytes: ``there`` of them from a source, then zeros."""
    w = k.w
    move = intrinsic(k, "void", "memcpy.p0.p0.i64", "ptr", "ptr", "i64", "i1")
    fill = intrinsic(k, "void", "memset.p0.i64", "ptr", "i8", "i64", "i1")
    w.line(f"{move}(ptr {target}, ptr {source}, i64 {there}, i1 false)")
    rest = w.pure("getelementptr i8, ptr {}, i64 {}", target, there)
    w.line(f"{fill}(ptr {rest}, i8 0, i64 {w.pure('sub i64 {}, {}', nbytes, there)}, i1 false)")


def _source(k: Kernel, copy: Copy, lane: str) -> tuple[str, str]:
    """Returns where a lane reads, and how many bytes the source has from there on."""
    base, there = k.base(copy.stmt.source), _nbytes(k, copy.stmt.source)
    if isinstance(copy.stmt, AsyncStore):
        return base, there
    first = _number(k, copy.start, lane)
    return k.w.pure("getelementptr i8, ptr {}, i64 {}", base, first), _less(k, "i64", there, first)


def _target(k: Kernel, copy: Copy, lane: str) -> str:
    base = k.base(copy.stmt.destination)
    if isinstance(copy.stmt, AsyncLoad):
        return base
    first = _number(k, copy.start, lane)
    return k.w.pure("getelementptr i8, ptr {}, i64 {}", base, first)


def _payload(k: Kernel, copy: Copy, lane: str) -> str:
    """Returns the address of the bytes that a lane has captured."""
    w = k.w
    wide = w.pure("zext i32 {} to i64", lane)
    if copy.payload is not None:
        distance = w.pure(f"mul i64 {{}}, {copy.room}", wide)
        return w.pure("getelementptr i8, ptr {}, i64 {}", k.area_address(copy.payload), distance)
    assert copy.capture is not None
    start = CAPTURES
    for before in k.captures[: copy.capture]:
        start = w.pure(
            "getelementptr i8, ptr {}, i64 {}", start, w.pure(f"mul i64 {{}}, {before.lanes}", _room(k, before))
        )
    if k.areas > 1:
        wide = w.pure("add i64 {}, {}", w.pure(f"mul i64 {{}}, {k.lanes}", k.chunk), wide)
    distance = w.pure("mul i64 {}, {}", _room(k, k.captures[copy.capture]), wide)
    return w.pure("getelementptr i8, ptr {}, i64 {}", start, distance)


def _room(k: Kernel, capture: Capture) -> str:
    """Returns the bytes that each lane may capture, as ``Capture.room`` does: an i64 operand."""
    buffers = k.program.abi_buffers
    bounds = [_nbytes(k, buffers[slot].name) for slot in capture.slots]
    bounds += [] if capture.most is None else [str(capture.most)]
    return reduce(lambda a, b: _least(k, "i64", a, b), bounds)


# ---- numbers of bytes
def _nbytes(k: Kernel, name: str) -> str:
    """Returns the length of a buffer in bytes, an i64 operand."""
    buffer, length = k.buffers[name], k.length(name)
    size = element_of(buffer).size
    if buffer.count:
        return str(buffer.count * size)
    return length if size == 1 else k.w.pure(f"mul i64 {{}}, {size}", length)


def _wide(k: Kernel, value: Value) -> str:
    """Returns a number of bytes as a vector of i64."""
    vector = k.vector(value)
    if value.dtype.bits == 64:
        return vector
    return k.w.pure(f"zext {k.vector_type(SCALAR[value.dtype])} {{}} to {k.vector_type('i64')}", vector)


def _least(k: Kernel, kind: str, a: str, b: str) -> str:
    return k.w.call(kind, f"umin.{_name(k, kind)}", (kind, a), (kind, b))


def _less(k: Kernel, kind: str, a: str, b: str) -> str:
    """Returns ``a - b``, or 0 if that is negative."""
    return k.w.call(kind, f"usub.sat.{_name(k, kind)}", (kind, a), (kind, b))


def _name(k: Kernel, kind: str) -> str:
    return kind if kind == "i64" else f"v{k.lanes}i64"


# ---- what a copy keeps
def _keep(k: Kernel, area: PerVector, element: str, vector: str) -> None:
    """Keeps a number of each active lane; other lanes keep theirs."""
    w, kind, place = k.w, k.vector_type(element), k.area_address(area)
    if k.mask is not None:
        before = w.here(f"load {kind}, ptr {place}, align 64")
        vector = k.chosen(k.mask, kind, vector, before)
    w.line(f"store {kind} {vector}, ptr {place}, align 64")


def _place(k: Kernel, area: PerVector, element: str, lane: str) -> str:
    return k.w.pure(f"getelementptr {element}, ptr {{}}, i32 {{}}", k.area_address(area), lane)


def _number(k: Kernel, area: PerVector, lane: str) -> str:
    return k.w.here(f"load i64, ptr {_place(k, area, 'i64', lane)}")


def _tag(k: Kernel, name: str) -> Tag:
    tag = k.copies.get(name)
    if tag is None:
        copies = {id(stmt): (number, _plan(k, stmt)) for number, stmt in enumerate(copy_spans(k.program).by_tag[name])}
        selector = k.reserve_area(4 * k.lanes) if len(copies) > 1 else None
        tag = k.copies[name] = Tag(copies, selector)
    return tag


def _plan(k: Kernel, stmt: AsyncLoad | AsyncStore) -> Copy:
    """Decides when the copy is made, and whether its bytes must be kept in between."""
    first, nbytes = k.reserve_area(8 * k.lanes), k.reserve_area(8 * k.lanes)
    if stmt.source != stmt.destination:  # a copy within one buffer changes its own source
        spans = copy_spans(k.program)
        if spans.left_alone(stmt, stmt.source, (Touch.WRITE, Touch.ATOMIC)):
            return Copy(stmt, Moment.AT_WAIT, first, nbytes, None, None, 0, None)
        if spans.left_alone(stmt, stmt.destination, tuple(Touch)):
            return Copy(stmt, Moment.AT_START, first, nbytes, None, None, 0, None)
    captured = k.reserve_area(8 * k.lanes)
    names = sorted({stmt.source, stmt.destination})
    static = {name: k.buffers[name].static_nbytes for name in names}
    bounds = [each for each in static.values() if each is not None]
    bounds += [min(stmt.size.bits, _ANY_BUFFER)] if isinstance(stmt.size, Literal) else []
    most = min(bounds, default=None)
    if most is not None and most * k.lanes * k.areas <= MOST_KEPT:
        room = max(1, most)
        payload = k.reserve_area(room * k.lanes)
        return Copy(stmt, Moment.KEPT, first, nbytes, captured, payload, room, None)
    slots = tuple(slot for slot, each in enumerate(k.program.abi_buffers) if static.get(each.name, 0) is None)
    k.captures.append(Capture(k.lanes * k.areas, slots, most))
    return Copy(stmt, Moment.KEPT, first, nbytes, captured, None, 0, len(k.captures) - 1)
