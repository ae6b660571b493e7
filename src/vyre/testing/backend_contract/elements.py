"""Cases of every element type of a buffer, also in private memory: loads widen, stores narrow, ranges are checked."""

from __future__ import annotations

from typing import Final

from vyre.domain.errors import InvalidInput
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bool_
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
