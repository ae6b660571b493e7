"""Cases of private memory, of which every lane has its own."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.elements import ALL, patterns, stored
from vyre.testing.backend_contract.expect import equal
from vyre.testing.backend_contract.known import Known, check_known, mapping

PRIVATE: Final = Group("private")


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


_LANES: Final = 70


def _of_lanes(body: str, result: Callable[[int], int], declared: str = "u32[8]") -> Known:
    """Returns a kernel whose lanes write ``result(lane)`` each; ``a`` is their private memory."""
    wanted = tuple(map(result, range(_LANES)))
    return mapping(body, tuple(range(_LANES)), wanted, lanes=32, more=f"buffer a @- private {declared}")


def _popped(i: int) -> int:
    return int("".join(map(str, range(i % 9, 0, -1))) or "0")


def _sorted_sum(i: int) -> int:
    values = sorted((i * 37 + k * 11) % 17 for k in range(8))
    return sum(v * (k + 1) for k, v in enumerate(values))


@PRIVATE.table(
    {
        "literal_indices": _of_lanes(
            "a[0u] = i a[1u] = a[0u] + 5u a[0u] = a[1u] * 2u y[i] = a[0u] + a[1u] + a[7u]",
            lambda i: 3 * (i + 5),
        ),
        "dynamic_indices": _of_lanes(
            "for k in 0u..8u { a[(k + i) % 8u] = k * 10u + i } y[i] = a[3u] + a[(i + 1u) % 8u]",
            lambda i: ((3 - i) % 8) * 10 + i + (10 + i),
        ),
        "each_lane_has_its_own": _of_lanes("a[0u] = i a[1u] = a[0u] y[i] = a[1u]", lambda i: i),
        "zero_at_the_start_of_every_lane": _of_lanes(
            "let s = 0u for k in 0u..8u { s := s + a[k] a[k] = 77u } y[i] = s", lambda i: 0
        ),
        "a_stack": _of_lanes(
            "let top = 0u for k in 0u..i % 9u { a[top] = k + 1u top := top + 1u }"
            " let s = 0u for k in 0u..top { top := top - 1u s := s * 10u + a[top] } y[i] = s",
            _popped,
        ),
        "sorting": _of_lanes(
            "for k in 0u..8u { a[k] = (i * 37u + k * 11u) % 17u }"
            " for n in 0u..8u { for k in 0u..7u { if a[k] > a[k + 1u] {"
            " let t = a[k] a[k] = a[k + 1u] a[k + 1u] = t } } }"
            " let s = 0u for k in 0u..8u { s := s + a[k] * (k + 1u) } y[i] = s",
            _sorted_sum,
        ),
        "divergent_stores": _of_lanes(
            "if i % 2u == 0u { a[1u] = 5u } else { a[2u] = 6u } y[i] = a[1u] * 10u + a[2u]",
            lambda i: 50 if i % 2 == 0 else 6,
        ),
        "indices_out_of_range": _of_lanes(
            "let z = x[i] - i a[i + 8u] = 9u a[z - 1u] = 9u a[bitcast<i32>(z) - 1i] = 9u a[cast<i64>(z) - 8i64] = 9u"
            " a[cast<u64>(z) + 0x100000000u64] = 9u"
            " let s = a[i + 8u] + a[z - 1u] + a[bitcast<i32>(z) - 1i] + a[cast<u64>(z) + 0x100000000u64]"
            " for k in 0u..8u { s := s + a[k] } y[i] = s",
            lambda i: 0,
        ),
        "indices_of_other_types": _of_lanes(
            "for k in 7i..-1i step -1i { a[k] = cast<u32>(k) + i } y[i] = a[2u64] * 100u + a[5i64]",
            lambda i: (2 + i) * 100 + 5 + i,
        ),
        "its_length": _of_lanes("y[i] = len(a)", lambda i: 8),
        "one_element": _of_lanes("a[0u] = i y[i] = a[0u] + a[i]", lambda i: 0 if i == 0 else i, "u32[1]"),
        "what_a_returning_lane_stored_is_gone": _of_lanes(
            "a[i % 8u] = 5u if i % 3u == 0u { return } y[i] = a[i % 8u] + a[(i + 1u) % 8u]",
            lambda i: 0 if i % 3 == 0 else 5,
        ),
    }
)
def memory_of_a_lane(bench: Bench, known: Known) -> None:
    """A lane reads what it stored itself, at literal and at dynamic indices."""
    check_known(bench, known)


@PRIVATE.case()
def several_arrays(bench: Bench) -> None:
    """Arrays of different types do not overlap."""
    kernel = """
    workgroup_size 8, 1, 1
    buffer y @0 write u32[24]
    buffer bytes @- private u8[5]
    buffer wide @- private u64[3]
    buffer halves @- private f16[3]
    buffer truths @- private bool8[2]
    body {
      let i = gid.x
      for k in 0u..9u {
        bytes[k] = i + k + 250u
        wide[k] = cast<u64>(i + k) << 33u
        halves[k] = cast<f32>(i * 100u + k) + 0.5f
        truths[k] = i % 2u == k
      }
      y[i] = bytes[i % 5u]
      y[i + 8u] = cast<u32>(wide[i % 3u] >> 33u) * 10u + select(truths[0u], 1u, 0u) + select(truths[1u], 2u, 0u)
      y[i + 16u] = pack<f16>(halves[i % 3u])
    }
    """
    lanes = range(8)
    wanted = [(i + i % 5 + 250) % 256 for i in lanes]
    wanted += [(i + i % 3) * 10 + (1 if i % 2 == 0 else 2) for i in lanes]
    wanted += [scalar.pack(ScalarType.F16, _f32_bits(i * 100 + i % 3 + 0.5)) for i in lanes]
    equal(bench.words(kernel, grid=(1, 1, 1)), wanted)


def _f32_bits(value: float) -> int:
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits


@PRIVATE.case()
def the_most_of_it(bench: Bench) -> None:
    """A lane may have 65 536 bytes."""
    kernel = """
    workgroup_size 2, 1, 1
    buffer x @0 read u32[4]
    buffer y @1 write u32[8]
    buffer a @- private u8[61440]
    buffer b @- private u32[1024]
    body {
      let i = gid.x
      for k in 0u..5u { a[x[i] * k] = k + 1u b[k * 255u + i] = k + 10u }
      let s = 0u
      for k in 0u..5u { s := s * 16u + a[x[i] * k] }
      y[i] = s
      y[i + 4u] = b[255u * 4u + i] + b[0u]
    }
    """
    x = (15_359, 15_360, 1, 0)
    stored_values = []
    for at in x:
        memory: dict[int, int] = {}
        for k in range(5):
            if at * k < 61_440:
                memory[at * k] = k + 1
        total = 0
        for k in range(5):
            total = total * 16 + memory.get(at * k, 0)
        stored_values.append(total)
    second = [(14 if 1020 + i < 1024 else 0) + (10 if i == 0 else 0) for i in range(4)]
    equal(bench.words(kernel, words(*x), grid=(2, 1, 1)), stored_values + second)


@PRIVATE.case()
def beside_workgroup_memory(bench: Bench) -> None:
    """A barrier orders workgroup memory and leaves private memory alone."""
    kernel = """
    workgroup_size 16, 1, 1
    buffer y @0 write u32[32]
    buffer shared @- workgroup u32[16]
    buffer own @- private u32[2]
    body {
      own[0u] = gid.x + 1u
      shared[lid.x] = own[0u]
      barrier(seq_cst)
      own[1u] = shared[15u - lid.x]
      barrier(seq_cst)
      y[gid.x] = own[0u] * 100u + own[1u]
    }
    """
    wanted = [(group + lane + 1) * 100 + group + 16 - lane for group in (0, 16) for lane in range(16)]
    equal(bench.words(kernel, grid=(2, 1, 1)), wanted)
