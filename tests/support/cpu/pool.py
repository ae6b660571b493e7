"""A loaded runtime and small kernels for tests of the pool, compiled in this process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from ctypes import CFUNCTYPE, Array, addressof, c_int64
from functools import cache
from pathlib import Path
from time import sleep
from typing import Any, Final

from support.limits import LIMIT_S
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import X86_64, host
from vyre.adapters.cpu.native.loading import LoadedCode, load
from vyre.adapters.cpu.pool.entries import Entries
from vyre.adapters.cpu.pool.machine import Target
from vyre.adapters.cpu.pool.translation import runtime_text
from vyre.adapters.cpu.pool.worker_pool import WorkerPool

ARCH: Final = host().arch
TARGET: Final = Target(ARCH, sys.platform)


def compiled(text: str) -> LoadedCode:
    """Returns the code of a module."""
    return load(compile_object(text, host(), Effort.FULL))


def store_objects(folder: Path) -> None:
    """Writes the objects of the runtime and of the kernels to a folder, for `stored_pool` of another process."""
    for name, text in (("runtime", runtime_text(TARGET)), ("kernels", KERNELS)):
        (folder / name).write_bytes(compile_object(text, host(), Effort.FULL))


def stored_pool(folder: Path, size: int) -> tuple[WorkerPool, LoadedCode]:
    """Returns a pool with stored code, and stored kernels, without a compiler."""
    runtime, code = (load((folder / name).read_bytes()) for name in ("runtime", "kernels"))
    assert "llvmlite" not in sys.modules
    return WorkerPool(Entries(runtime.addresses, runtime), size=size, cpus=size), code


def until(condition: Callable[[], bool]) -> None:
    """Waits until a condition holds, and fails after a limit."""
    for _ in range(1000 * LIMIT_S):
        if condition():
            return
        sleep(0.001)
    raise AssertionError("it does not come to pass")


def until_collected(condition: Callable[[], bool]) -> None:
    """Collects garbage until a condition holds: a thread that ends may name some until then.  Fails after a limit."""
    for _ in range(10 * LIMIT_S):
        if condition():
            return
        gc.collect()
        sleep(0.005)
    raise AssertionError("it is not collected")


@cache
def entries(target: Target = TARGET) -> Entries:
    """Returns the runtime, loaded once in the process."""
    code = compiled(runtime_text(target))
    return Entries(code.addresses, code)


@cache
def kernels() -> Mapping[str, int]:
    """Returns the addresses of the kernels in this file."""
    return _loaded(KERNELS).addresses


@cache
def _loaded(text: str) -> LoadedCode:
    return compiled(text)  # the code stays as long as the process


@cache
def merging(dtype: str, operation: str) -> int:
    """Returns the address of a kernel that combines a value made of the number of each group with an element."""
    signed = "s" if dtype == "i32" else "u"
    kind = "i64" if dtype == "u64" else "i32"
    if operation in ("min", "max"):
        test = f"{signed}{'lt' if operation == 'min' else 'gt'}"
        combine = f"  %first = icmp {test} {kind} %old, %value\n  %new = select i1 %first, {kind} %old, {kind} %value"
    else:
        combine = f"  %new = {operation} {kind} %old, %value"
    convert = "  %value = add i64 %mixed, 0" if kind == "i64" else "  %value = trunc i64 %high to i32"
    text = _over_groups("merging", _MERGED.format(type=kind, convert=convert, combine=combine))
    return _loaded(text).addresses["merging"]


def merged_value(group: int, dtype: str) -> int:
    """Returns the value of a group that ``merging`` combines, as an unsigned number."""
    mixed = (group + 1) * 0x9E3779B97F4A7C15 % 2**64
    return mixed if dtype == "u64" else mixed >> 32


def exchange_mode(mode: int) -> int:
    """Sets the floating-point mode of this thread, and returns the one that it had."""
    function: Any = CFUNCTYPE(c_int64, c_int64)(_loaded(MODES).addresses["exchange_mode"])
    return int(function(mode))


class Frame:
    """A frame with one buffer of 64-bit words."""

    def __init__(self, count: int) -> None:
        self.data: Final[Array[c_int64]] = (c_int64 * count)()
        self._words: Final = (c_int64 * 8)(1, 1, 1, 0, 0, 0, addressof(self.data), count)
        self.address: Final = addressof(self._words)
        self.buffer: Final = addressof(self.data)


def _over_groups(name: str, body: str) -> str:
    """Returns a kernel that runs ``body`` for each group: ``%g`` is its number, ``%next`` that plus 1, ``%index`` that
    modulo the ``%count`` elements of buffer 0, which is at ``%data``.
    """
    return f"""
define void @{name}(ptr %frame, i64 %begin, i64 %end, ptr %scratch) {{
entry:
  %place = getelementptr i64, ptr %frame, i64 6
  %data = load ptr, ptr %place
  %length = getelementptr i64, ptr %frame, i64 7
  %count = load i64, ptr %length
  br label %loop
loop:
  %g = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp ult i64 %g, %end
  br i1 %more, label %body, label %done
body:
  %next = add i64 %g, 1
  %index = urem i64 %g, %count
{body}
  br label %loop
done:
  ret void
}}
"""


_SPREAD: Final = """
  %element = getelementptr i64, ptr %data, i64 %index
  %old = atomicrmw add ptr %element, i64 %next monotonic
"""
"""Adds the number of each group, plus 1, to an element."""

_SPREAD_ALONE: Final = """
  %element = getelementptr i64, ptr %data, i64 %index
  %old = load volatile i64, ptr %element
  %new = add i64 %old, %next
  store volatile i64 %new, ptr %element
"""
"""The same without atomics: the exclusive variant."""

KERNELS: Final = (
    _over_groups("spread", _SPREAD)
    + _over_groups("spread_alone", _SPREAD_ALONE)
    + """
; never ends by itself: polls the stop flag at its back edge; stores 1 to element 0 first
define void @endless(ptr %frame, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %place = getelementptr i64, ptr %frame, i64 6
  %data = load ptr, ptr %place
  store atomic i64 1, ptr %data release, align 8
  %word = getelementptr i64, ptr %frame, i64 3
  %control = load ptr, ptr %word
  br label %loop
loop:
  %stop = load atomic i32, ptr %control monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %done, label %loop
done:
  ret void
}

; traps in group 5 with address 7 and tag 2 at lane 40
define void @trapping(ptr %frame, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %low = icmp ule i64 %begin, 5
  %high = icmp ugt i64 %end, 5
  %has = and i1 %low, %high
  br i1 %has, label %trap, label %done
trap:
  %word = getelementptr i64, ptr %frame, i64 3
  %control = load ptr, ptr %word
  %lane = getelementptr i8, ptr %control, i64 8
  store i64 40, ptr %lane
  %address = getelementptr i8, ptr %control, i64 16
  store i32 7, ptr %address
  %tag = getelementptr i8, ptr %control, i64 20
  store i32 2, ptr %tag
  br label %done
done:
  ret void
}

; sets a lane over its budget
define void @exceeding(ptr %frame, i64 %begin, i64 %end, ptr %scratch) {
  %word = getelementptr i64, ptr %frame, i64 3
  %control = load ptr, ptr %word
  %lane = getelementptr i8, ptr %control, i64 24
  store i64 3, ptr %lane
  ret void
}

; stores the product of elements 1 and 2 of buffer 0, as f32 bits, to its element 0
define void @product(ptr %frame, i64 %begin, i64 %end, ptr %scratch) {
  %place = getelementptr i64, ptr %frame, i64 6
  %data = load ptr, ptr %place
  %pa = getelementptr i64, ptr %data, i64 1
  %pb = getelementptr i64, ptr %data, i64 2
  %a = load volatile float, ptr %pa
  %b = load volatile float, ptr %pb
  %c = fmul float %a, %b
  %bits = bitcast float %c to i32
  %wide = zext i32 %bits to i64
  store volatile i64 %wide, ptr %data
  ret void
}

; writes the bytes of its scratch that a command asked for, and checks their alignment; counts the calls in element 0
define void @scratching(ptr %frame, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %place = getelementptr i64, ptr %frame, i64 6
  %data = load ptr, ptr %place
  %psize = getelementptr i64, ptr %data, i64 1
  %size = load i64, ptr %psize
  %address = ptrtoint ptr %scratch to i64
  %low = and i64 %address, 63
  %aligned = icmp eq i64 %low, 0
  call void @llvm.memset.p0.i64(ptr %scratch, i8 -91, i64 %size, i1 false)
  br i1 %aligned, label %count, label %done
count:
  %groups = sub i64 %end, %begin
  %old = atomicrmw add ptr %data, i64 %groups monotonic
  br label %done
done:
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @sched_yield()

; every group adds 1 to element 1, and ends once element 0 is above its number, or the run is stopped
define void @gated(ptr %frame, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %place = getelementptr i64, ptr %frame, i64 6
  %data = load ptr, ptr %place
  %begun = getelementptr i64, ptr %data, i64 1
  %word = getelementptr i64, ptr %frame, i64 3
  %control = load ptr, ptr %word
  br label %groups
groups:
  %g = phi i64 [ %begin, %entry ], [ %next, %passed ]
  %more = icmp ult i64 %g, %end
  br i1 %more, label %group, label %done
group:
  %old = atomicrmw add ptr %begun, i64 1 seq_cst
  br label %waiting
waiting:
  %gate = load atomic i64, ptr %data seq_cst, align 8
  %open = icmp ugt i64 %gate, %g
  br i1 %open, label %passed, label %closed
closed:
  %stop = load atomic i32, ptr %control monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  %yielded = call i32 @sched_yield()
  br i1 %stopped, label %done, label %waiting
passed:
  %next = add i64 %g, 1
  br label %groups
done:
  ret void
}

; adds the number of groups in each call to every element, without atomics
define void @touching(ptr %frame, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %place = getelementptr i64, ptr %frame, i64 6
  %data = load ptr, ptr %place
  %length = getelementptr i64, ptr %frame, i64 7
  %count = load i64, ptr %length
  %groups = sub i64 %end, %begin
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %element = getelementptr i64, ptr %data, i64 %i
  %old = load i64, ptr %element
  %new = add i64 %old, %groups
  store i64 %new, ptr %element
  %next = add i64 %i, 1
  br label %loop
done:
  ret void
}

define void @nothing(ptr %frame, i64 %begin, i64 %end, ptr %scratch) {
  ret void
}
"""
)

_MERGED: Final = """
  %mixed = mul i64 %next, -7046029254386353131
  %high = lshr i64 %mixed, 32
{convert}
  %element = getelementptr {type}, ptr %data, i64 %index
  %old = load volatile {type}, ptr %element
{combine}
  store volatile {type} %new, ptr %element
"""
"""Combines a value made of the number of each group with an element, without atomics."""

MODES: Final = (
    """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i64 @exchange_mode(i64 %mode) {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %old = load i32, ptr %place
  %new = trunc i64 %mode to i32
  store i32 %new, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  %wide = zext i32 %old to i64
  ret i64 %wide
}
"""
    if ARCH == X86_64
    else """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
define i64 @exchange_mode(i64 %mode) {
  %old = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret i64 %old
}
"""
)
"""Sets the floating-point mode of the thread, and returns the one that it had."""
