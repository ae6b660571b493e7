"""Cases of indices of every integer type, of which none wraps."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.operators import INTEGERS
from vyre.domain.ir.text_format import literal_text
from vyre.domain.ir.types import ScalarType, f64, i32, i64, u8, u32, u64
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal

INDICES: Final = Group("indices")
_TYPES: Final[dict[str, ScalarType]] = {dtype.text: dtype for dtype in (u32, i32, u64, i64)}
_COUNT: Final = 5


def _indices(dtype: ScalarType) -> tuple[int, ...]:
    """Indices around both ends of a buffer of five elements, at the limits of the type, and those that would be in
    range modulo 2^32, or if they were multiplied by the size of an element modulo 2^32 or 2^64.
    """
    low = (0, 1, 4, 5, 6, 2, 3)
    bits = dtype.bits - (1 if dtype.is_signed else 0)
    near = [n for k in (29, 30, 31, 32, 33, 61, 62, 63) for n in (1 << k, (1 << k) + 1)]
    top = [(1 << bits) - 1, (1 << bits) - 2]
    high = [n for n in near + top if n < 1 << bits]
    negative = (
        [-1, -2, -5, -6, -(1 << 31), -(1 << 31) + 1, *(-n for n in high), -(1 << bits)] if dtype.is_signed else []
    )
    return tuple(dict.fromkeys((*low, *high, *negative)))


def _stored(dtype: ScalarType, values: tuple[int, ...]) -> bytes:
    return b"".join((v & ((1 << dtype.bits) - 1)).to_bytes(dtype.size, "little") for v in values)


def _at(values: tuple[int, ...], index: int) -> int:
    return values[index] if 0 <= index < len(values) else 0


_ELEMENTS: Final = (u8, ScalarType.U16, u32, u64)


@INDICES.table({f"{t.text}_of_{e.text}": (t, e) for t in _TYPES.values() for e in _ELEMENTS})
def of_loads(bench: Bench, row: tuple[ScalarType, ScalarType]) -> None:
    """A load at a negative index, or at one that is not below the length, gives zero."""
    dtype, element = row
    kernel = f"""
    workgroup_size 64, 1, 1
    buffer at @0 read {dtype.text}[runtime]
    buffer x @1 read {element.text}[{_COUNT}]
    buffer y @2 write {element.text}[runtime] like at
    body {{ y[gid.x] = x[at[gid.x]] }}
    """
    values, indices = (11, 12, 13, 14, 15), _indices(dtype)
    wanted = _stored(element, tuple(_at(values, index) for index in indices))
    equal(bench.run(kernel, _stored(dtype, indices), _stored(element, values)), (wanted,))


@INDICES.table({f"{t.text}_of_{e.text}": (t, e) for t in _TYPES.values() for e in _ELEMENTS})
def of_stores(bench: Bench, row: tuple[ScalarType, ScalarType]) -> None:
    """A store at such an index is dropped."""
    dtype, element = row
    widened = element.widened.text
    kernel = f"""
    workgroup_size 64, 1, 1
    buffer at @0 read {dtype.text}[runtime]
    buffer y @1 write {element.text}[{_COUNT}]
    body {{ if gid.x < len(at) {{ y[at[gid.x]] = cast<{widened}>(gid.x + 7u) }} }}
    """
    indices = _indices(dtype)
    wanted = tuple(indices.index(k) + 7 for k in range(_COUNT))
    found = bench.run(kernel, _stored(dtype, indices), grid=(-(-len(indices) // 64), 1, 1))
    equal(found, (_stored(element, wanted),))


@INDICES.table(_TYPES)
def of_atomics(bench: Bench, dtype: ScalarType) -> None:
    """An atomic at such an index changes nothing and gives zero."""
    kernel = f"""
    workgroup_size 64, 1, 1
    buffer at @0 read {dtype.text}[runtime]
    buffer c @1 read_write u32[{_COUNT}]
    buffer y @2 write u32[runtime] like at
    body {{ if gid.x < len(at) {{ let old = atomic_add(c, at[gid.x], 100u) y[gid.x] = old }} }}
    """
    values, indices = (11, 12, 13, 14, 15), _indices(dtype)
    found = bench.run(kernel, _stored(dtype, indices), words(*values))
    old = words(*(_at(values, index) for index in indices))
    equal(found, (words(*(v + 100 for v in values)), old))


@INDICES.table(_TYPES)
def of_workgroup_memory(bench: Bench, dtype: ScalarType) -> None:
    """Workgroup memory has the same rule."""
    kernel = f"""
    workgroup_size 64, 1, 1
    buffer at @0 read {dtype.text}[runtime]
    buffer y @1 write u32[runtime] like at
    buffer shared @- workgroup u32[{_COUNT}]
    body {{
      shared[at[gid.x]] = lid.x + 1u
      barrier(seq_cst)
      y[gid.x] = shared[at[gid.x]]
    }}
    """
    indices = _indices(dtype)[:64]
    indices += tuple(-7 if dtype.is_signed else 9 for _ in range(64 - len(indices)))
    wanted = words(*(indices.index(index) + 1 if 0 <= index < _COUNT else 0 for index in indices))
    equal(bench.run(kernel, _stored(dtype, indices)), (wanted,))


@INDICES.table(_TYPES)
def that_are_literals(bench: Bench, dtype: ScalarType) -> None:
    """Literal indices follow the rule, in a buffer whose size is known at run time only."""
    indices = _indices(dtype)
    mask = (1 << dtype.bits) - 1
    loads = " ".join(f"y[{k}u] = x[{literal_text(dtype, index & mask)}]" for k, index in enumerate(indices))
    kernel = f"""
    workgroup_size 1, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[{len(indices)}]
    body {{ {loads} }}
    """
    values = (11, 12, 13, 14, 15)
    equal(bench.run(kernel, words(*values), grid=(1, 1, 1)), (words(*(_at(values, index) for index in indices)),))


_STRIDES: Final = {
    "i32_below_the_start": "bitcast<i32>(gid.x) - 3i",
    "i32_backward": "2i - bitcast<i32>(gid.x)",
    "i64_below_the_start": "cast<i64>(gid.x) - 3i64",
    "i64_backward": "cast<i64>(4u) - cast<i64>(gid.x) * 2i64",
    "u64_from_2_to_the_32": "cast<u64>(gid.x) + 0x100000000u64",
    "u64_that_wraps": "cast<u64>(gid.x) - 3u64",
    "u64_times_2_to_the_61": "cast<u64>(gid.x) * 0x2000000000000000u64",
    "i64_times_2_to_the_32": "cast<i64>(gid.x) << 32u",
}


def _strided(name: str, lane: int) -> int:
    return {
        "i32_below_the_start": lane - 3,
        "i32_backward": 2 - lane,
        "i64_below_the_start": lane - 3,
        "i64_backward": 4 - lane * 2,
        "u64_from_2_to_the_32": lane + (1 << 32),
        "u64_that_wraps": (lane - 3) % (1 << 64),
        "u64_times_2_to_the_61": lane * (1 << 61) % (1 << 64),
        "i64_times_2_to_the_32": lane << 32,
    }[name]


@INDICES.table({name: name for name in _STRIDES})
def that_follow_the_lane(bench: Bench, name: str) -> None:
    """An index worked out from the position of the lane follows the rule, whatever an engine finds out about it."""
    lanes, index = 12, _STRIDES[name]
    kernel = f"""
    workgroup_size {lanes}, 1, 1
    buffer x @0 read f64[runtime]
    buffer y @1 write f64[{lanes}]
    buffer z @2 write u32[{_COUNT}]
    body {{ y[gid.x] = x[{index}] z[{index}] = gid.x + 1u }}
    """
    values = tuple((0x4000 + k) << 48 for k in range(_COUNT))
    at = [_strided(name, lane) for lane in range(lanes)]
    wanted = [0] * _COUNT
    for lane, index_of in enumerate(at):
        if 0 <= index_of < _COUNT:
            wanted[index_of] = lane + 1
    found = bench.run(kernel, _stored(f64, values), grid=(1, 1, 1))
    equal(found, (_stored(f64, tuple(_at(values, k) for k in at)), words(*wanted)))


@INDICES.case()
def in_a_loop_of_their_type(bench: Bench) -> None:
    """A loop that counts down to and below zero stops reading at the first element."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[5]
    buffer y @1 write i64[4]
    body {
      let s = 0i64
      for k in 6i64..-3i64 step -1i64 { s := s * 100i64 + cast<i64>(x[k - cast<i64>(gid.x)]) }
      y[gid.x] = s
    }
    """
    values = (1, 2, 3, 4, 5)
    wanted = []
    for lane in range(4):
        total = 0
        for k in range(6, -3, -1):
            total = (total * 100 + _at(values, k - lane)) % (1 << 64)
        wanted.append(total)
    equal(bench.run(kernel, words(*values), grid=(1, 1, 1)), (_stored(u64, tuple(wanted)),))


assert {dtype.text for dtype in INTEGERS} == set(_TYPES)
