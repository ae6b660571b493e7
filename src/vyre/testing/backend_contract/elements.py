"""Cases of every element type of a buffer, also in private memory: loads widen, stores narrow, ranges are checked.

Cases of indices of every integer type, of which none wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from vyre.domain.errors import InvalidInput
from vyre.domain.ir.operators import INTEGERS
from vyre.domain.ir.text_format import literal_text
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bool_, f64, i32, i64, u8, u32, u64
from vyre.domain.numerics import scalar
from vyre.testing.backend_contract.bench import Bench, equal, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.programs import add_programs
from vyre.testing.samples import samples

ELEMENTS: Final = Group("elements")
ALL: Final = {dtype.text: dtype for dtype in ScalarType}
EXECUTABLE: Final = {dtype.text: dtype for dtype in EXECUTABLE_TYPES}
_ZERO: Final = {"bool": "false", "f32": "0.0f", "f64": "0.0f64", "u32": "0u", "i32": "0i", "u64": "0u64", "i64": "0i64"}


def patterns(element: ScalarType) -> tuple[int, ...]:
    """Returns bit patterns of an element: all of a byte, selected ones of wider types."""
    if element is bool_:
        return (0, 1, 2, 0x8000_0000)
    if element.is_executable:
        return samples(element)
    if element.size == 1:
        return tuple(range(256))
    return (*range(0, 1 << 16, 509), 1, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0x7F80, 0x7FC0, 0xFF81, 0x8000, 0x7FFF, 0xFFFF)


def stored(element: ScalarType, bits: tuple[int, ...]) -> bytes:
    """Returns bit patterns, or numbers modulo 2^bits, as little-endian bytes of the element."""
    return b"".join((b % (1 << 8 * element.size)).to_bytes(element.size, "little") for b in bits)


def _copy(source: ScalarType, target: ScalarType, declared: str = "read") -> str:
    return f"""
    workgroup_size 64, 1, 1
    buffer x @0 {declared} {source.text}[runtime]
    buffer y @1 write {target.text}[runtime] like x
    body {{ y[gid.x] = x[gid.x] }}
    """


def _loaded(element: ScalarType, bits: tuple[int, ...]) -> list[int]:
    return [scalar.load_element(element, b.to_bytes(element.size, "little")) for b in bits]


@ELEMENTS.table(ALL)
def a_load_widens(bench: Bench, element: ScalarType) -> None:
    """A load returns the executable type of its element, sign-extended where the element is signed."""
    bits = patterns(element)
    wide = element.widened
    wanted = b"".join(scalar.store_element(wide, b) for b in _loaded(element, bits))
    equal(bench.run(_copy(element, wide), stored(element, bits)), (wanted,))


@ELEMENTS.table({name: dtype for name, dtype in ALL.items() if not dtype.is_executable})
def a_store_narrows(bench: Bench, element: ScalarType) -> None:
    """A store truncates integers and rounds floats to nearest even, to infinity beyond the range."""
    bits = samples(element.widened)
    wanted = b"".join(scalar.store_element(element, b) for b in bits)
    equal(bench.run(_copy(element.widened, element), stored(element.widened, bits)), (wanted,))


@ELEMENTS.table(ALL)
def a_copy_keeps_the_value(bench: Bench, element: ScalarType) -> None:
    """A value that is loaded and stored is unchanged, except that a NaN becomes canonical, and a bool becomes 0 or
    1.
    """
    bits = patterns(element)
    wanted = b"".join(scalar.store_element(element, b) for b in _loaded(element, bits))
    equal(bench.run(_copy(element, element), stored(element, bits)), (wanted,))


@ELEMENTS.table(ALL)
def a_uniform_buffer_reads_the_same(bench: Bench, element: ScalarType) -> None:
    """Small read-only buffers of kind uniform hold every element type."""
    bits = patterns(element)[:16]
    wanted = b"".join(scalar.store_element(element, b) for b in _loaded(element, bits))
    equal(bench.run(_copy(element, element, "uniform"), stored(element, bits)), (wanted,))


@ELEMENTS.table(ALL)
def a_load_out_of_range_is_zero(bench: Bench, element: ScalarType) -> None:
    """A load past the end of a buffer returns zero, at any distance."""
    kernel = f"""
    workgroup_size 4, 1, 1
    buffer x @0 read {element.text}[runtime]
    buffer y @1 write {element.text}[4]
    body {{ let far = select(gid.x < 2u, gid.x, 0xfffffffeu + gid.x - 2u) y[gid.x] = x[far + 1u] }}
    """
    bits = patterns(element)[1:3]
    kept = scalar.store_element(element, _loaded(element, bits)[1])
    # Indices 1, 2, 0xffffffff and, wrapped, 0.
    first = scalar.store_element(element, _loaded(element, bits)[0])
    nothing = bytes(element.size)
    equal(bench.run(kernel, stored(element, bits)), (kept + nothing + nothing + first,))


@ELEMENTS.table(ALL)
def a_store_out_of_range_is_dropped(bench: Bench, element: ScalarType) -> None:
    """A store past the end changes nothing, neither in the buffer nor beside it."""
    wide = element.widened
    kernel = f"""
    workgroup_size 8, 1, 1
    buffer one @0 read {element.text}[1]
    buffer y @1 read_write {element.text}[runtime]
    buffer z @2 write {element.text}[8]
    body {{ y[gid.x * 3u] = one[0u] z[gid.x + 0xfffffffeu] = one[0u] }}
    """
    one = {True: 0x3C00 if element.size == 2 else 0x3F80_0000}.get(wide.is_float, 1)
    if element is ScalarType.BF16:
        one = 0x3F80
    if element is ScalarType.F64:
        one = 0x3FF0_0000_0000_0000
    value, nothing = one.to_bytes(element.size, "little"), bytes(element.size)
    outputs = bench.run(kernel, value, nothing * 5, grid=(1, 1, 1))
    equal(outputs, (value + nothing * 2 + value + nothing, value * 6 + nothing * 2))


@ELEMENTS.table(ALL)
def lengths_count_elements(bench: Bench, element: ScalarType) -> None:
    """``len`` is the number of elements bound in this dispatch."""
    kernel = f"""
    workgroup_size 1, 1, 1
    buffer x @0 read {element.text}[runtime]
    buffer y @1 write u32[1]
    body {{ y[0u] = len(x) }}
    """
    for count in (0, 1, 7):
        equal(bench.words(kernel, bytes(count * element.size)), [count])


@ELEMENTS.table({name: dtype for name, dtype in ALL.items() if dtype.size > 1})
def half_an_element_is_refused(bench: Bench, element: ScalarType) -> None:
    """A buffer sized at run time must be bound to whole elements; the error names the buffer."""
    error = bench.refuses(InvalidInput, _copy(element, element), bytes(element.size + 1))
    equal("`x`" in error.message, True, "whether the buffer is named")


@ELEMENTS.table(ALL)
def workgroup_memory_holds_it(bench: Bench, element: ScalarType) -> None:
    """Workgroup memory of every element type starts as zeros and converts stored values as buffers do."""
    kernel = f"""
    workgroup_size 16, 1, 1
    buffer x @0 read {element.text}[32]
    buffer y @1 write {element.text}[32]
    buffer z @2 write {element.text}[32]
    buffer shared @- workgroup {element.text}[16]
    body {{
      z[gid.x] = shared[lid.x]
      barrier(seq_cst)
      shared[lid.x] = x[gid.x]
      barrier(seq_cst)
      y[gid.x] = shared[15u - lid.x]
    }}
    """
    bits = (patterns(element) * 16)[:32]
    kept = [scalar.store_element(element, b) for b in _loaded(element, bits)]
    outputs = bench.run(kernel, stored(element, bits))
    equal(outputs, (b"".join(kept[15::-1] + kept[:15:-1]), bytes(32 * element.size)))


@ELEMENTS.table(EXECUTABLE)
def parameters_are_passed_by_value(bench: Bench, element: ScalarType) -> None:
    """A scalar parameter is one element of host bytes, the same in every lane."""
    kernel = f"""
    workgroup_size 32, 1, 1
    param before @0 u32
    param a @1 {element.text}
    param after @2 u32
    buffer y @3 write {element.text}[40]
    buffer z @4 write u32[2]
    body {{ y[gid.x] = a z[0u] = before z[1u] = after }}
    """
    for bits in samples(element)[:8]:
        outputs = bench.run(kernel, words(11), bits.to_bytes(element.size, "little"), words(13))
        equal(outputs, (scalar.store_element(element, bits) * 40, words(11, 13)))


@ELEMENTS.table(EXECUTABLE)
def locals_hold_it(bench: Bench, element: ScalarType) -> None:
    """A local keeps its value where lanes diverge and reconverge."""
    kernel = f"""
    workgroup_size 32, 1, 1
    buffer x @0 read {element.text}[runtime]
    buffer y @1 write {element.text}[runtime] like x
    body {{
      let v = x[gid.x]
      if gid.x % 3u == 0u {{ v := x[gid.x + 1u] }} else {{ if gid.x % 3u == 1u {{ v := {_ZERO[element.text]} }} }}
      y[gid.x] = v
    }}
    """
    bits = samples(element) * 4
    values = [scalar.store_element(element, b) for b in bits] + [bytes(element.size)]
    wanted = [(values[i + 1], bytes(element.size), values[i])[i % 3] for i in range(len(bits))]
    equal(bench.run(kernel, stored(element, bits)), (b"".join(wanted),))


@ELEMENTS.table(ALL)
def outputs_start_as_zeros(bench: Bench, element: ScalarType) -> None:
    """Elements of outputs that a program does not write are zero, whatever the storage held."""
    kernel = f"""
    workgroup_size 4, 1, 1
    buffer x @0 read {element.text}[runtime]
    buffer y @1 write {element.text}[9]
    body {{ if gid.x == 4u {{ y[gid.x] = x[0u] }} }}
    """
    equal(bench.run(kernel, bytes(element.size)), (bytes(9 * element.size),))


PRIVATE: Final = Group("private")
add_programs(PRIVATE)


@PRIVATE.table(ALL)
def it_holds_every_element_type(bench: Bench, element: ScalarType) -> None:
    """It starts as zeros in every lane, and converts what is stored as buffers do."""
    kernel = f"""
    workgroup_size 16, 1, 1
    buffer x @0 read {element.text}[48]
    buffer y @1 write {element.text}[48]
    buffer z @2 write {element.text}[48]
    buffer own @- private {element.text}[3]
    body {{
      let k = gid.x % 3u
      z[gid.x] = own[k]
      own[k] = x[gid.x]
      own[(k + 1u) % 3u] = x[(gid.x + 1u) % 48u]
      y[gid.x] = own[k]
    }}
    """
    bits = (patterns(element) * 48)[:48]
    kept = b"".join(
        scalar.store_element(element, scalar.load_element(element, b.to_bytes(element.size, "little"))) for b in bits
    )
    equal(bench.run(kernel, stored(element, bits)), (kept, bytes(48 * element.size)))


INDICES: Final = Group("indices")
add_programs(INDICES)
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
    expected = stored(element, tuple(_at(values, index) for index in indices))
    equal(bench.run(kernel, stored(dtype, indices), stored(element, values)), (expected,))


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
    expected = tuple(indices.index(k) + 7 for k in range(_COUNT))
    outputs = bench.run(kernel, stored(dtype, indices), grid=(-(-len(indices) // 64), 1, 1))
    equal(outputs, (stored(element, expected),))


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
    outputs = bench.run(kernel, stored(dtype, indices), words(*values))
    old = words(*(_at(values, index) for index in indices))
    equal(outputs, (words(*(v + 100 for v in values)), old))


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
    expected = words(*(indices.index(index) + 1 if 0 <= index < _COUNT else 0 for index in indices))
    equal(bench.run(kernel, stored(dtype, indices)), (expected,))


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


_STRIDES: Final[dict[str, tuple[str, Callable[[int], int]]]] = {
    "i32_below_the_start": ("bitcast<i32>(gid.x) - 3i", lambda lane: lane - 3),
    "i32_backward": ("2i - bitcast<i32>(gid.x)", lambda lane: 2 - lane),
    "i64_below_the_start": ("cast<i64>(gid.x) - 3i64", lambda lane: lane - 3),
    "i64_backward": ("cast<i64>(4u) - cast<i64>(gid.x) * 2i64", lambda lane: 4 - lane * 2),
    "u64_from_2_to_the_32": ("cast<u64>(gid.x) + 0x100000000u64", lambda lane: lane + (1 << 32)),
    "u64_that_wraps": ("cast<u64>(gid.x) - 3u64", lambda lane: (lane - 3) % (1 << 64)),
    "u64_times_2_to_the_61": ("cast<u64>(gid.x) * 0x2000000000000000u64", lambda lane: lane * (1 << 61) % (1 << 64)),
    "i64_times_2_to_the_32": ("cast<i64>(gid.x) << 32u", lambda lane: lane << 32),
}


@INDICES.table(_STRIDES)
def that_follow_the_lane(bench: Bench, stride: tuple[str, Callable[[int], int]]) -> None:
    """An index worked out from the position of the lane follows the rule, whatever an engine finds out about it."""
    lanes = 8  # so few that no two of them have one index
    index, index_of_lane = stride
    kernel = f"""
    workgroup_size {lanes}, 1, 1
    buffer x @0 read f64[runtime]
    buffer y @1 write f64[{lanes}]
    buffer z @2 write u32[{_COUNT}]
    body {{ y[gid.x] = x[{index}] z[{index}] = gid.x + 1u }}
    """
    values = tuple((0x4000 + k) << 48 for k in range(_COUNT))
    indices = list(map(index_of_lane, range(lanes)))
    expected = [0] * _COUNT
    for lane, index_of in enumerate(indices):
        if 0 <= index_of < _COUNT:
            expected[index_of] = lane + 1
    outputs = bench.run(kernel, stored(f64, values), grid=(1, 1, 1))
    equal(outputs, (stored(f64, tuple(_at(values, k) for k in indices)), words(*expected)))


_LANES: Final = 8


class _Guarded(NamedTuple):
    """Statements that store ``i + 1`` into ``z`` at indices, and these indices for lane ``i`` and its input ``v``."""

    body: str
    indices: Callable[[int, int], Iterable[int]]


def _down(start: int, stop: int, step: int = -1) -> Callable[[int, int], Iterable[int]]:
    return lambda i, v: range(start, stop, step)


@INDICES.table(
    {
        "a_loop_from_below_zero": _Guarded("for k in -3i..4i step 1i { z[k] = i + 1u }", _down(-3, 4, 1)),
        "a_loop_down_past_zero": _Guarded("for k in 9i..-4i step -2i { z[k] = i + 1u }", _down(9, -4, -2)),
        "a_wide_loop_down_past_zero": _Guarded("for k in 6i64..-2i64 step -1i64 { z[k] = i + 1u }", _down(6, -2)),
        "a_loop_above_2_to_the_32": _Guarded(
            "for k in 0x100000000u64..0x100000003u64 step 1u64 { z[k] = i + 1u }", lambda i, v: ()
        ),
        "a_loop_across_2_to_the_32": _Guarded(
            "for k in 1u64..0x100000003u64 step 0x80000000u64 { z[k] = i + 1u }", lambda i, v: (1,)
        ),
        "a_loop_to_a_loaded_bound": _Guarded(
            "for k in bitcast<i32>(v) - 2i..bitcast<i32>(v) step 1i { z[k] = i + 1u }", lambda i, v: range(v - 2, v)
        ),
        "a_signed_comparison": _Guarded(
            "let k = bitcast<i32>(v) - 3i if k < 5i { z[k] = i + 1u }", lambda i, v: (v - 3,)
        ),
        "a_comparison_with_the_length": _Guarded(
            "let k = bitcast<i32>(v) - 3i if k < bitcast<i32>(len(z)) { z[k] = i + 1u }", lambda i, v: (v - 3,)
        ),
        "a_comparison_of_the_low_half": _Guarded(
            "let k = cast<u64>(v) << 32u | cast<u64>(v) if cast<u32>(k) < 5u { z[k] = i + 1u }",
            lambda i, v: (v << 32 | v,),
        ),
        "a_local_assigned_by_a_switch": _Guarded(
            "let k = 0u switch v { case 1u { k := 4u } case 2u { k := 0x20000000u } else { k := 5u } } z[k] = i + 1u",
            lambda i, v: ({1: 4, 2: 1 << 29}.get(v, 5),),
        ),
        "a_local_assigned_by_a_switch_in_a_loop": _Guarded(
            "let k = 0u for n in 0u..4u { z[k] = i + 1u switch n { case 1u { k := k + v } else { k := k + 1u } } }",
            lambda i, v: (0, 1, 1 + v, 2 + v),
        ),
        "a_local_assigned_by_a_long_chain": _Guarded(
            "let k = 0u "
            + " else ".join(f"if v == {n}u {{ k := {n * 3}u }}" for n in range(1, 70))
            + " else { k := 1u } z[k] = i + 1u",
            lambda i, v: (v * 3 if v else 1,),
        ),
        "the_end_of_a_switch_that_returns": _Guarded(
            "switch v { case 0u, 1u, 2u { return } else {} } z[v + 1u] = i + 1u", lambda i, v: (v + 1,) if v > 2 else ()
        ),
        "a_narrow_value": _Guarded(
            "let k = narrow<u8>(v + 253u) z[k] = i + 1u z[narrow<i8>(bitcast<i32>(v) + 253i)] = i + 1u",
            lambda i, v: ((v + 253) % 256, v - 3),
        ),
        "an_unpacked_value": _Guarded(
            "z[unpack<u16>(v | 0x30000u)] = i + 1u z[unpack<i8>(v | 0xf8u)] = i + 1u",
            lambda i, v: (v, (v | 0xF8) - 256),
        ),
        "a_cast_that_wraps": _Guarded(
            "z[wrap_cast<u32>(cast<f32>(v) * -1.0f)] = i + 1u z[wrap_cast<i64>(cast<f32>(v) - 2.0f)] = i + 1u",
            lambda i, v: (-v % (1 << 32), v - 2),
        ),
    }
)
def that_look_bounded(bench: Bench, guarded: _Guarded) -> None:
    """An index that loops, conditions and assignments seem to bound is checked where they do not."""
    kernel = f"""
    workgroup_size {_LANES}, 1, 1
    buffer x @0 read u32[{_LANES}]
    buffer w @1 write u32[{_LANES * _COUNT}]
    buffer z @- private u32[{_COUNT}]
    body {{
      let i = gid.x
      let v = x[i]
      for once in 0u..1u {{ {guarded.body.replace("return", "continue")} }}
      for j in 0u..{_COUNT}u {{ w[i * {_COUNT}u + j] = z[j] }}
    }}
    """
    shared = f"""
    workgroup_size 1, 1, 1
    buffer x @0 read u32[{_LANES}]
    buffer z @1 write u32[{_COUNT}]
    body {{ let i = gid.x let v = x[i] {guarded.body} }}
    """
    x = (0, 1, 2, 3, 4, 5, 6, 2)
    private, last = [], [0] * _COUNT
    for i, v in enumerate(x):
        own = [0] * _COUNT
        for index in guarded.indices(i, v):
            if 0 <= index < _COUNT:
                own[index] = i + 1
        private += own
    equal(bench.words(kernel, words(*x), grid=(1, 1, 1)), private, "private memory")
    for index in guarded.indices(0, x[3]):
        if 0 <= index < _COUNT:
            last[index] = 1
    equal(bench.words(shared, words(x[3], *x[1:]), grid=(1, 1, 1)), last, "a buffer")


assert {dtype.text for dtype in INTEGERS} == set(_TYPES)
