"""Compiled objects become callable code, in memory that is never both writable and executable."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import host
from vyre.adapters.cpu.native.linked_form import UnusableObject
from vyre.adapters.cpu.native.loading import LoadedCode, linked, load, load_by_llvm, load_elf

pytestmark = NEEDS_LLVM

TEXT: Final = """
@squares = internal constant [5 x i32] [i32 0, i32 1, i32 4, i32 9, i32 16]
@calls = global i32 0
@first = internal global i32 3
@second = internal global ptr @first
declare i32 @offered(i32)
declare float @llvm.roundeven.f32(float)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define i32 @square(i32 %i) nounwind {
  %at = getelementptr [5 x i32], ptr @squares, i64 0, i32 %i
  %value = load i32, ptr %at
  %before = load i32, ptr @calls
  %after = add i32 %before, 1
  store i32 %after, ptr @calls
  ret i32 %value
}
define i32 @pointed() nounwind {
  %to = load ptr, ptr @second
  %value = load i32, ptr %to
  ret i32 %value
}
define i32 @ask(i32 %i) nounwind {
  %value = call i32 @offered(i32 %i)
  ret i32 %value
}
define float @rounded(float %x) nounwind {
  %value = call float @llvm.roundeven.f32(float %x)
  ret float %value
}
define void @clear(ptr %to, i64 %n) nounwind {
  call void @llvm.memset.p0.i64(ptr %to, i8 7, i64 %n, i1 false)
  ret void
}
"""
INT: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
NOTHING: Final = ctypes.CFUNCTYPE(ctypes.c_int32)
FLOAT: Final = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)
FILL: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
OFFERED: Final = INT(lambda value: 3 * value)
SYMBOLS: Final = {"offered": int(ctypes.cast(OFFERED, ctypes.c_void_p).value or 0)}


@pytest.fixture(scope="module")
def compiled() -> bytes:
    return compile_object(TEXT, host().at_most(128), Effort.LIGHT)  # in which roundeven is a call of the library


def load_linked(data: bytes, symbols: Mapping[str, int]) -> LoadedCode:
    return load(linked(data), symbols)


LOADERS: Final[dict[str, Callable[..., LoadedCode]]] = {
    "elf": load_elf,
    "llvm": load_by_llvm,
    "default": load,
    "linked": load_linked,
}


@pytest.mark.parametrize("loader", LOADERS)
def test_loaded_functions_give_their_values(loader: str, compiled: bytes) -> None:
    if loader == "elf" and sys.platform != "linux":
        pytest.skip("pages become executable otherwise here")
    code = LOADERS[loader](compiled, SYMBOLS)
    at = code.addresses
    assert set(at) == {"square", "pointed", "ask", "rounded", "clear", "calls"}
    assert [INT(at["square"])(i) for i in range(5)] == [0, 1, 4, 9, 16]
    assert ctypes.c_int32.from_address(at["calls"]).value == 5
    assert NOTHING(at["pointed"])() == 3
    assert INT(at["ask"])(14) == 42
    assert [FLOAT(at["rounded"])(x) for x in (0.5, 1.5, -2.5, 2.75)] == [0.0, 2.0, -2.0, 3.0]
    filled = ctypes.create_string_buffer(100)
    FILL(at["clear"])(ctypes.addressof(filled), 99)
    assert filled.raw == b"\7" * 99 + b"\0"
    code.close()
    assert code.closed
    code.close()


def mappings(address: int) -> str:
    """The protection of the page at ``address``, as Linux lists it."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        bounds, protection, *_ = line.split()
        start, end = (int(bound, 16) for bound in bounds.split("-"))
        if start <= address < end:
            return protection
    return ""


def both_at_once() -> set[str]:
    """The mappings of this process that are writable and executable."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if "rwx" in line.split()[1]}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system lists no mappings")
@pytest.mark.parametrize("loader", [load_elf, load_linked])
def test_no_page_is_writable_and_executable(loader: Callable[..., LoadedCode], compiled: bytes) -> None:
    before = both_at_once()  # the callbacks of ctypes are
    code = loader(compiled, SYMBOLS)
    square, calls = code.addresses["square"], code.addresses["calls"]
    assert (mappings(square), mappings(calls)) == ("r-xp", "rw-p")
    assert both_at_once() <= before
    code.close()
    assert mappings(square) == ""


@pytest.mark.parametrize("form", [bytes, linked])
def test_an_object_that_needs_an_unknown_function_is_refused(form: Callable[[bytes], bytes], compiled: bytes) -> None:
    with pytest.raises(UnusableObject, match=r"it needs 'offered', which neither the C library nor vyre offers. Fix: "):
        load(form(compiled))


STORED: Final = """
import ctypes, sys
from pathlib import Path
from vyre.adapters.cpu.native.loading import load
code = load(Path(sys.argv[1]).read_bytes(), {"offered": 1})
print(ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(code.addresses["square"])(3), "llvmlite" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux loads objects without LLVM")
@pytest.mark.parametrize("form", [bytes, linked])
def test_a_stored_object_runs_without_llvmlite(form: Callable[[bytes], bytes], compiled: bytes, tmp_path: Path) -> None:
    path = tmp_path / "kernel.o"
    path.write_bytes(form(compiled))
    command = [sys.executable, "-c", STORED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stdout.split() == ["9", "False"], done.stderr
