"""The control block of a run: loop back edges poll its stop flag and count against the step budget of every lane, and
traps are noted there, of which the lane with the lowest linear global id counts, with its address and tag.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.ids import linear_global_id
from vyre.adapters.cpu.llvm.values import Value
from vyre.domain.ir import nodes as ir
from vyre.domain.sites import ENDED, NOWHERE, site_number

CONTROL: Final = 3
BUDGET: Final = 4
STEPS_USED: Final = 5
"""Words of a frame."""


def control(k: Kernel) -> str:
    """Returns the address of the control block, a ptr operand."""
    return k.w.pure("inttoptr i64 {} to ptr", k.word(CONTROL))


def poll(k: Kernel) -> None:
    """Leaves the function if the stop flag is set."""
    w = k.w
    flag = w.here(f"load atomic i32, ptr {control(k)} monotonic, align 4")
    going = w.label("going")
    stopped = w.here(f"icmp ne i32 {flag}, 0")
    w.branch(stopped, "stopped", going, likely=False)
    w.place(going)


def count(k: Kernel, loop: ir.Loop) -> str:
    """Counts one back edge of a loop for the active lanes; returns those that may take it.

    The others end, and the one with the lowest linear global id is noted.  Their counts are ``ENDED`` and the number of
    the loop from then on.
    """
    w, wide, masks = k.w, k.vector_type("i64"), k.vector_type("i1")
    poll(k)
    w.declare(_COUNT.replace("LANES", str(k.lanes)) if k.lanes > 1 else _COUNT_ONE)
    number = site_number(loop)
    ended = ENDED | (NOWHERE if number is None else number)
    mask = k.lane_mask()
    linear = linear_global_id(k)
    table = w.pure("inttoptr i64 {} to ptr", k.word(STEPS_USED))
    over = w.here(
        f"call {masks} @vyre_count(ptr {control(k)}, ptr {table}, i64 {k.word(BUDGET)}, i64 {ended}, "
        f"{wide} {linear}, {masks} {mask})"
    )
    k.mask = over
    for frame in k.loops:
        frame.end()
    k.mask = k.masks.combined("and", mask, k.masks.inverse(over))
    return k.mask


_COUNT_LANE: Final = """\
  %place = getelementptr i64, ptr %table, i64 %linear
  %before = load i64, ptr %place, align 8
  %used = add i64 %before, 1
  store i64 %used, ptr %place, align 8
  %exceeded = icmp ugt i64 %used, %budget
  br i1 %exceeded, label %note, label %BEHIND
note:
  store i64 %ended, ptr %place, align 8
  %lowest = getelementptr i8, ptr %control, i64 24
  %old = atomicrmw umin ptr %lowest, i64 %linear seq_cst"""
"""Counts one more step of the lane ``%linear``; a lane beyond its budget is noted, any other goes on at BEHIND."""

_COUNT: Final = """\
define internal <LANES x i1> @vyre_count(
    ptr %control, ptr %table, i64 %budget, i64 %ended, <LANES x i64> %lanes, <LANES x i1> %mask) noinline {
entry:
  br label %head
head:
  %lane = phi i32 [ 0, %entry ], [ %next, %latch ]
  %over = phi <LANES x i1> [ zeroinitializer, %entry ], [ %all, %latch ]
  %active = extractelement <LANES x i1> %mask, i32 %lane
  br i1 %active, label %count, label %latch
count:
  %linear = extractelement <LANES x i64> %lanes, i32 %lane
COUNT_LANE
  %more = insertelement <LANES x i1> %over, i1 true, i32 %lane
  br label %latch
latch:
  %all = phi <LANES x i1> [ %over, %head ], [ %over, %count ], [ %more, %note ]
  %next = add i32 %lane, 1
  %done = icmp eq i32 %next, LANES
  br i1 %done, label %end, label %head
end:
  ret <LANES x i1> %all
}""".replace("COUNT_LANE", _COUNT_LANE.replace("BEHIND", "latch"))

_COUNT_ONE: Final = """\
define internal i1 @vyre_count(ptr %control, ptr %table, i64 %budget, i64 %ended, i64 %linear, i1 %active) noinline {
entry:
  br i1 %active, label %count, label %end
count:
COUNT_LANE
  br label %end
end:
  %over = phi i1 [ false, %entry ], [ false, %count ], [ true, %note ]
  ret i1 %over
}""".replace("COUNT_LANE", _COUNT_LANE.replace("BEHIND", "end"))


def trap(k: Kernel, address: Value, tag: str) -> None:
    """Notes a trap of the active lanes; the caller ends them."""
    if tag not in k.trap_tags:
        k.trap_tags.append(tag)
    number = k.trap_tags.index(tag)
    w, wide = k.w, k.vector_type("i64")
    w.declare((_FIND.replace("LANES", str(k.lanes)) if k.lanes > 1 else _ALONE) + _NOTE)
    linear = linear_global_id(k)
    w.line(
        f"call void @vyre_trap(ptr {control(k)}, {wide} {linear}, {k.vector_type('i32')} {k.vector(address)}, "
        f"{k.vector_type('i1')} {k.lane_mask()}, i32 {number})"
    )


_FIND: Final = """\
define internal void @vyre_trap(
    ptr %control, <LANES x i64> %lanes, <LANES x i32> %where, <LANES x i1> %mask, i32 %tag) noinline cold {
entry:
  br label %head
head:
  %lane = phi i32 [ 0, %entry ], [ %next, %latch ]
  %best = phi i64 [ -1, %entry ], [ %lower, %latch ]
  %at = phi i32 [ 0, %entry ], [ %there, %latch ]
  %active = extractelement <LANES x i1> %mask, i32 %lane
  %linear = extractelement <LANES x i64> %lanes, i32 %lane
  %address = extractelement <LANES x i32> %where, i32 %lane
  %less = icmp ult i64 %linear, %best
  %better = and i1 %active, %less
  br label %latch
latch:
  %lower = select i1 %better, i64 %linear, i64 %best
  %there = select i1 %better, i32 %address, i32 %at
  %next = add i32 %lane, 1
  %done = icmp eq i32 %next, LANES
  br i1 %done, label %lock, label %head
"""
"""Finds the lowest active lane."""

_NOTE: Final = """\
lock:
  %place = getelementptr i8, ptr %control, i64 4
  br label %take
take:
  %pair = cmpxchg ptr %place, i32 0, i32 1 acquire monotonic
  %taken = extractvalue { i32, i1 } %pair, 1
  br i1 %taken, label %compare, label %take
compare:
  %record = getelementptr i8, ptr %control, i64 8
  %known = load i64, ptr %record, align 8
  %earlier = icmp ult i64 %lower, %known
  br i1 %earlier, label %note, label %release
note:
  store i64 %lower, ptr %record, align 8
  %address.place = getelementptr i8, ptr %control, i64 16
  store i32 %there, ptr %address.place, align 4
  %tag.place = getelementptr i8, ptr %control, i64 20
  store i32 %tag, ptr %tag.place, align 4
  br label %release
release:
  store atomic i32 0, ptr %place release, align 4
  ret void
}"""
"""Notes the lane ``%lower`` and the address ``%there`` if no lower lane is noted."""

_ALONE: Final = """\
define internal void @vyre_trap(ptr %control, i64 %lower, i32 %there, i1 %active, i32 %tag) noinline cold {
entry:
  br label %lock
"""
"""The start for vectors of one lane, which is active."""
