"""Cases of atomics: every operator on every element, alone and contended, in buffers and in workgroup memory."""

from __future__ import annotations

from functools import reduce
from typing import Final, NamedTuple

from vyre.domain.ir.operators import ATOMIC_ELEMENTS, ATOMIC_TEXT, AtomicOp
from vyre.domain.ir.types import ScalarType, i32, u32, u64
from vyre.domain.numerics import scalar
from vyre.testing.backend_contract.bench import CANONICAL_ORDER, Bench, u32s, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.elements import stored
from vyre.testing.backend_contract.expect import equal
from vyre.testing.backend_contract.operators import samples

ATOMICS: Final = Group("atomics")
_SUFFIX: Final[dict[ScalarType, str]] = {u32: "u", i32: "i", u64: "u64"}
_ELEMENTS: Final = tuple(t for t in ScalarType if t in ATOMIC_ELEMENTS)
_COMMUTING: Final = (AtomicOp.ADD, AtomicOp.OR, AtomicOp.AND, AtomicOp.XOR, AtomicOp.MIN, AtomicOp.MAX)


class _Kind(NamedTuple):
    op: AtomicOp
    element: ScalarType


_KINDS: Final = {f"{op.name.lower()}_{t.text}": _Kind(op, t) for op in AtomicOp for t in _ELEMENTS}
_COMMUTING_KINDS: Final = {key: kind for key, kind in _KINDS.items() if kind.op in _COMMUTING}


def _call(op: AtomicOp, target: str, index: str, value: str) -> str:
    expected = "e[gid.x], " if op is AtomicOp.COMPARE_EXCHANGE else ""
    return f"{ATOMIC_TEXT[op]}({target}, {index}, {expected}{value})"


def _rows(element: ScalarType) -> list[tuple[int, int, int]]:
    """Returns old, expected and new values; expected equals the old one in every other row."""
    values = samples(element)
    pairs = [(a, b) for a in values[::2] for b in values[1::2]]
    return [(a, a if k % 2 else b, b) for k, (a, b) in enumerate(pairs)]


def _answers(kind: _Kind) -> tuple[list[tuple[int, int, int]], bytes]:
    rows = _rows(kind.element)
    return rows, stored(kind.element, tuple(scalar.atomic(kind.op, kind.element, *row) for row in rows))


@ATOMICS.table(_KINDS)
def each_lane_its_own_element(bench: Bench, kind: _Kind) -> None:
    """An atomic returns the old value and stores the new one."""
    t = kind.element.text
    kernel = f"""
    workgroup_size 32, 1, 1
    buffer x @0 read_write {t}[runtime]
    buffer e @1 read {t}[runtime]
    buffer v @2 read {t}[runtime]
    buffer old @3 write {t}[runtime] like x
    body {{ old[gid.x] = {_call(kind.op, "x", "gid.x", "v[gid.x]")} }}
    """
    rows, new = _answers(kind)
    given = [stored(kind.element, tuple(row[i] for row in rows)) for i in range(3)]
    equal(bench.run(kernel, *given), (new, given[0]))


@ATOMICS.table(_KINDS)
def in_workgroup_memory(bench: Bench, kind: _Kind) -> None:
    """Atomics on workgroup memory follow the same rules."""
    t = kind.element.text
    kernel = f"""
    workgroup_size 32, 1, 1
    buffer x @0 read_write {t}[runtime]
    buffer e @1 read {t}[runtime]
    buffer v @2 read {t}[runtime]
    buffer old @3 write {t}[runtime] like x
    buffer shared @- workgroup {t}[32]
    body {{
      shared[lid.x] = x[gid.x]
      barrier(seq_cst)
      old[gid.x] = {_call(kind.op, "shared", "lid.x", "v[gid.x]")}
      barrier(seq_cst)
      x[gid.x] = shared[lid.x]
    }}
    """
    rows, new = _answers(kind)
    given = [stored(kind.element, tuple(row[i] for row in rows)) for i in range(3)]
    equal(bench.run(kernel, *given), (new, given[0]))


@ATOMICS.table(_COMMUTING_KINDS)
def contended_by_every_lane(bench: Bench, kind: _Kind) -> None:
    """No update of a contended element is lost, within a workgroup and across them."""
    t = kind.element.text
    kernel = f"""
    workgroup_size 64, 1, 1
    buffer x @0 read_write {t}[2]
    buffer v @1 read {t}[runtime]
    buffer shared @- workgroup {t}[1]
    body {{
      if lid.x == 0u {{ shared[0u] = v[0u] }}
      barrier(seq_cst)
      if gid.x < len(v) {{
        let a = {_call(kind.op, "x", "0u", "v[gid.x]")}
        let b = {_call(kind.op, "shared", "0u", "v[gid.x]")}
      }}
      barrier(seq_cst)
      if gid.x == 0u {{ x[1u] = shared[0u] }}
    }}
    """
    values = (samples(kind.element) * 15)[:200]
    first = samples(kind.element)[7]

    def fold(start: int, those: tuple[int, ...]) -> int:
        return reduce(lambda old, v: scalar.atomic(kind.op, kind.element, old, 0, v), those, start)

    found = bench.run(kernel, stored(kind.element, (first, 0)), stored(kind.element, values))
    equal(found, (stored(kind.element, (fold(first, values), fold(values[0], values[:64]))),))


@ATOMICS.table(_KINDS)
def out_of_range(bench: Bench, kind: _Kind) -> None:
    """An atomic past the end returns 0 and changes nothing."""
    t = kind.element.text
    kernel = f"""
    workgroup_size 4, 1, 1
    buffer x @0 read_write {t}[4]
    buffer e @1 read {t}[4]
    buffer old @2 write {t}[4]
    body {{ old[gid.x] = {_call(kind.op, "x", "gid.x + 4u + gid.x * 0x3ffffff0u", f"5{_SUFFIX[kind.element]}")} }}
    """
    kept = stored(kind.element, samples(kind.element)[3:7])
    equal(bench.run(kernel, kept, bytes(len(kept))), (kept, bytes(len(kept))))


@ATOMICS.table({name: name for name in ("relaxed", "acquire", "release", "acq_rel", "seq_cst")})
def orderings(bench: Bench, ordering: str) -> None:
    """Every memory ordering gives the same results."""
    kernel = f"""
    workgroup_size 64, 1, 1
    buffer x @0 read_write u32[3]
    body {{
      let a = atomic_add.{ordering}(x, 0u, 1u)
      let b = atomic_max.{ordering}(x, 1u, gid.x)
      let c = atomic_xor.{ordering}(x, 2u, 1u << (gid.x % 32u))
    }}
    """
    equal(bench.words(kernel, words(5, 6, 7), grid=(5, 1, 1)), [325, 319, 7])


@ATOMICS.case()
def tickets_are_a_permutation(bench: Bench) -> None:
    """The values that a counter returns are distinct and without gaps, in any order."""
    kernel = """
    workgroup_size 64, 1, 1
    buffer next @0 read_write u32[1]
    buffer y @1 write u32[300]
    body { if gid.x < 300u { let ticket = atomic_add(next, 0u, 1u) y[ticket] = y[ticket] + gid.x + 1u } }
    """
    count, found = bench.run(kernel, words(0))
    equal((count, sorted(u32s(found))), (words(300), list(range(1, 301))))


@ATOMICS.case()
def a_compare_exchange_has_one_winner(bench: Bench) -> None:
    """Of many lanes that exchange an expected value, exactly one succeeds."""
    kernel = """
    workgroup_size 64, 1, 1
    buffer lock @0 read_write u32[1]
    buffer winners @1 read_write u32[1]
    body {
      if atomic_compare_exchange(lock, 0u, 0u, gid.x + 1u) == 0u { let n = atomic_add(winners, 0u, 1u) }
    }
    """
    lock, winners = bench.run(kernel, words(0), words(0), grid=(4, 1, 1))
    equal((1 <= u32s(lock)[0] <= 256, u32s(winners)), (True, [1]))


@ATOMICS.case()
def a_compare_exchange_loop_adds_up(bench: Bench) -> None:
    """A read-modify-write loop of compare-exchanges loses no update."""
    kernel = """
    workgroup_size 32, 1, 1
    buffer x @0 read_write u32[1]
    body {
      let seen = 0u
      for round in 0u..100000u {
        let now = atomic_compare_exchange(x, 0u, seen, seen * 2u + 1u - seen + gid.x)
        if now == seen { break }
        seen := now
      }
    }
    """
    # seen + 1 + gid.x for every lane: the sum does not depend on the order of the lanes.
    equal(bench.words(kernel, words(0), grid=(2, 1, 1)), [sum(range(1, 65))])


# ---------------------------------------------------------------- in the canonical order
@ATOMICS.case(CANONICAL_ORDER)
def tickets_follow_the_canonical_schedule(bench: Bench) -> None:
    """Returned values of a counter ascend with the lanes, workgroup by workgroup."""
    kernel = """
    workgroup_size 8, 1, 1
    buffer next @0 read_write u32[1]
    buffer y @1 write u32[40]
    body { y[gid.x] = atomic_add(next, 0u, 2u) }
    """
    equal(bench.run(kernel, words(5)), (words(85), words(*range(5, 85, 2))))


@ATOMICS.case(CANONICAL_ORDER)
def the_last_exchange_stays(bench: Bench) -> None:
    """Exchanges form a chain through the lanes in ascending order."""
    kernel = """
    workgroup_size 8, 1, 1
    buffer x @0 read_write u32[1]
    buffer y @1 write u32[20]
    body { if gid.x < 20u { y[gid.x] = atomic_exchange(x, 0u, gid.x + 100u) } }
    """
    equal(bench.run(kernel, words(9)), (words(119), words(9, *range(100, 119))))


@ATOMICS.case(CANONICAL_ORDER)
def the_first_compare_exchange_wins(bench: Bench) -> None:
    """Of many lanes that try to take a lock by compare-exchange, the lowest succeeds."""
    kernel = """
    workgroup_size 8, 1, 1
    buffer lock @0 read_write u32[1]
    buffer y @1 write u32[16]
    body { y[gid.x] = atomic_compare_exchange(lock, 0u, 0u, gid.x + 1u) }
    """
    equal(bench.run(kernel, words(0)), (words(1), words(0, *[1] * 15)))


@ATOMICS.case(CANONICAL_ORDER)
def several_atomics_of_one_expression_go_left_to_right(bench: Bench) -> None:
    """Each atomic of an expression is executed for all lanes before the next one."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[1]
    buffer y @1 write u32[4]
    body { y[gid.x] = atomic_add(x, 0u, 1u) * 100u + atomic_add(x, 0u, 1u) }
    """
    equal(bench.run(kernel, words(0)), (words(8), words(4, 105, 206, 307)))


@ATOMICS.case(CANONICAL_ORDER)
def then_goes_before_else(bench: Bench) -> None:
    """Atomics of lanes in the first branch execute before those in the second."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[1]
    buffer y @1 write u32[4]
    body {
      if gid.x % 2u == 1u { y[gid.x] = atomic_add(x, 0u, 1u) } else { y[gid.x] = atomic_add(x, 0u, 1u) }
    }
    """
    equal(bench.run(kernel, words(0)), (words(4), words(2, 0, 3, 1)))
