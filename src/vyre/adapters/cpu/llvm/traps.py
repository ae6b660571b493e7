"""Traps: the lane with the lowest linear global id is noted, with its address and tag."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.budget import control
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.ids import linear_global_id
from vyre.adapters.cpu.llvm.values import Value


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
