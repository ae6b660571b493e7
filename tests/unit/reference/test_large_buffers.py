"""Buffers of more than 2 GiB: what lies beyond 2^31 elements or bytes is where its index says.

The inputs are zeros that the operating system provides on demand, so that a test takes the pages that it touches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.profiles import SOAK
from vyre.adapters.reference.engine import NO_OPTIONS, Engine
from vyre.adapters.reference.scalar_oracle import ScalarKernel
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Program

ENGINES: Final = ("reference", "reference-scalar")
MOST: Final = (1 << 32) - 1
GIB: Final = 1 << 30

Bytes = npt.NDArray[np.uint8]


def available_bytes() -> int:
    """Memory that a process can take without swapping; 0 where the system does not tell."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as facts:
            found = {line.split(":")[0]: int(line.split()[1]) for line in facts}
    except OSError:
        return 0
    return found["MemAvailable"] << 10


def zeros(nbytes: int) -> Bytes:
    if available_bytes() < 6 * GIB:
        pytest.skip(f"{nbytes} bytes of zeros need a machine with 6 GiB of memory to spare")
    return np.zeros(nbytes, np.uint8)


POSITIONS: Final = (0, 5, (1 << 31) - 1, 1 << 31, (1 << 31) + 12345, MOST - 2, MOST - 1)


@pytest.fixture(scope="module")
def most() -> Bytes:
    """The largest buffer of bytes that there is, with a few of them set."""
    x = zeros(MOST)
    for number, position in enumerate(POSITIONS):
        x[position] = number + 1
    return x


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.uint32, np.int32, np.uint64, np.int64])
def test_loads_at_indices_of_every_type(engine: str, dtype: type[np.generic], most: Bytes) -> None:
    """The bits of an index are a number first: an i32 below zero is none of the elements from 2^31 on."""
    bits = 8 * np.dtype(dtype).itemsize
    numbers = [*POSITIONS, MOST, MOST - 3, 1 << 32, (1 << 32) + 5, -1, -2, -(1 << 31), (1 << 63) + 5]
    indices = np.array([n % (1 << bits) for n in numbers], np.uint64).astype(f"u{bits // 8}").view(dtype)
    program = Program.from_text(f"""
        program loads
        workgroup_size 1, 1, 1
        buffer x @0 read u8[runtime]
        buffer i @1 read {np.dtype(dtype).name.replace("uint", "u").replace("int", "i")}[{len(indices)}]
        buffer y @2 read_write u32[{len(indices)}] output
        buffer n @3 read_write u32[1] output
        body {{
          y[gid.x] = x[i[gid.x]]
          n[0u] = len(x)
        }}
    """)
    with vyre.open(backend=engine) as session:
        result = session.dispatch(program, {"x": most, "i": indices}, grid=len(indices))
    at = [int(index) for index in indices.tolist()]
    assert result["y"].tolist() == [POSITIONS.index(index) + 1 if index in POSITIONS else 0 for index in at]
    assert result["n"].tolist() == [MOST]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cast", ["{}", "cast<u64>({})", "cast<i64>({})"])
def test_indices_made_of_positions(engine: str, cast: str, most: Bytes) -> None:
    """Strided views and literals, from the last element downwards."""
    program = Program.from_text(f"""
        program strides
        workgroup_size 4, 1, 1
        buffer x @0 read u8[runtime]
        buffer y @1 read_write u32[8] output
        buffer z @2 read_write u32[8] output
        body {{
          y[gid.x] = x[{cast.format("2147483647u + gid.x")}]
          z[gid.x] = x[{cast.format("4294967294u - gid.x * 536870911u")}] + x[{cast.format("4294967293u")}]
        }}
    """)
    with vyre.open(backend=engine) as session:
        result = session.dispatch(program, {"x": most}, grid=2)
    assert result["y"].tolist() == [3, 4, 0, 0, 0, 0, 0, 0]
    wanted = [most[MOST - 1 - g * 536870911] + 6 for g in range(8)]
    assert result["z"].tolist() == wanted and wanted[0] == 13


@pytest.mark.parametrize("engine", ENGINES)
def test_more_elements_than_an_index_can_tell_apart_are_refused(engine: str) -> None:
    program = Program.from_text("""
        workgroup_size 1, 1, 1
        buffer x @0 read u8[runtime]
        buffer y @1 read_write u32[1] output
        body { y[0u] = x[0u] }
    """)
    with vyre.open(backend=engine) as session, pytest.raises(InvalidInput, match=r"`x` has 4294967296 elements.*Fix: "):
        session.dispatch(program, {"x": zeros(MOST + 1)}, grid=1)


def _stores(element: str, count: int) -> Program:
    first = count - 40
    atomic = f"let old = atomic_add(y, cast<i64>({count - 1}u), gid.x)" if element == "u32" else ""
    return Program.from_text(f"""
        program stores
        workgroup_size 4, 1, 1
        buffer i @0 read u64[8]
        buffer y @1 read_write {element}[{count}] output
        body {{
          y[{first}u + gid.x] = gid.x + 1u
          y[{first + 8}u + gid.x] = y[{first}u + gid.x] + 10u
          y[i[gid.x]] = gid.x + 100u
          barrier(seq_cst)
          {atomic}
        }}
    """)


def _places(count: int) -> npt.NDArray[np.uint64]:
    first = count - 40
    return np.array([first + 20, first + 22, count, count + 1, 1 << 32, first + 30, 1 << 63, 3], np.uint64)


def _check_stores(y: npt.NDArray[Any]) -> None:
    first = len(y) - 40
    wanted = np.zeros(40, y.dtype)
    wanted[:8] = range(1, 9)
    wanted[8:16] = range(11, 19)
    wanted[[20, 22, 30]] = 100, 101, 105
    wanted[39] = 28 if y.itemsize == 4 else 0
    assert y[first:].tolist() == wanted.tolist()
    assert (int(y[3]), int(y[:65536].sum()), int(y[first - 4096 : first].sum())) == (107, 107, 0)


LARGE: Final = (("u8", (1 << 31) + 70), ("u32", (1 << 29) + 70))


@pytest.mark.parametrize("engine", [VectorKernel, ScalarKernel], ids=ENGINES)
@pytest.mark.parametrize(("element", "count"), LARGE)
def test_stores_and_atomics(engine: Engine, element: str, count: int) -> None:
    program, places = _stores(element, count), _places(count)
    memory = {"i": places.view(np.uint8), "y": zeros(count * int(element[1:]) // 8)}
    launch = resolve_launch(program, (places.nbytes,), DispatchConfig(grid=(2, 1, 1)), LaunchLimits("reference"))
    engine(program, {}).run(memory, launch, NO_OPTIONS)
    _check_stores(memory["y"].view(element.replace("u8", "u1").replace("u32", "u4")))


@pytest.mark.skipif(not SOAK, reason="takes 2 GiB, every page of it: set VYRE_SOAK=1 (make soak)")
@pytest.mark.parametrize(("element", "count"), LARGE)
def test_outputs_that_a_backend_allocates(element: str, count: int) -> None:
    if available_bytes() < 6 * GIB:
        pytest.skip("an output of 2 GiB needs a machine with 6 GiB of memory to spare")
    with vyre.open(backend="reference") as session:
        y = session.dispatch(_stores(element, count), {"i": _places(count)}, grid=2)["y"]
    assert len(y) == count
    _check_stores(y)
