"""Frames of kernels are touched page by page, and those that are too large are known before a kernel runs."""

from __future__ import annotations

import pytest

from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import X86_64, host
from vyre.adapters.cpu.native.loading import load
from vyre.adapters.cpu.native.stack_frames import MOST_FRAME, frame_bytes

pytestmark = [
    NEEDS_LLVM,
    pytest.mark.skipif(host().arch != X86_64, reason="frames are read on x86-64 only"),
]


def function(nbytes: int) -> str:
    return f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @k(ptr %p, i64 %i) nounwind "probe-stack"="inline-asm" {{
  %a = alloca [{nbytes} x i8], align 64
  call void @llvm.memset.p0.i64(ptr %a, i8 0, i64 {nbytes}, i1 true)
  %q = getelementptr i8, ptr %a, i64 %i
  %v = load volatile i8, ptr %q
  store i8 %v, ptr %p
  ret void
}}
"""


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize("nbytes", [200_000, MOST_FRAME - 65_536, MOST_FRAME + 65_536, 40_000_000])
def test_the_size_of_a_large_frame_is_read(effort: Effort, nbytes: int) -> None:
    loaded = load(compile_object(function(nbytes), host(), effort))
    found = frame_bytes(loaded.addresses["k"])
    assert nbytes - 4096 <= found <= nbytes + 4096


@pytest.mark.parametrize("effort", Effort)
def test_a_small_frame_counts_as_none(effort: Effort) -> None:
    loaded = load(compile_object(function(100), host(), effort))
    assert frame_bytes(loaded.addresses["k"]) == 0
