"""Cases of atomics: every operator on every element, alone and contended, in buffers and in workgroup memory."""

from __future__ import annotations

from functools import reduce
from typing import Final, NamedTuple

from vyre.domain.ir.operators import ATOMIC_ELEMENTS, ATOMIC_TEXT, MERGEABLE, AtomicOp
from vyre.domain.ir.types import ScalarType, i32, u32, u64
from vyre.domain.numerics import scalar
from vyre.testing.backend_contract.bench import Bench, equal, u32s, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.elements import stored
from vyre.testing.backend_contract.programs import add_programs
from vyre.testing.samples import samples

ATOMICS: Final = Group("atomics")
add_programs(ATOMICS)
_SUFFIX: Final[dict[ScalarType, str]] = {u32: "u", i32: "i", u64: "u64"}
_ELEMENTS: Final = tuple(t for t in ScalarType if t in ATOMIC_ELEMENTS)


class _Kind(NamedTuple):
    op: AtomicOp
    element: ScalarType


_KINDS: Final = {f"{op.name.lower()}_{t.text}": _Kind(op, t) for op in AtomicOp for t in _ELEMENTS}
_COMMUTING_KINDS: Final = {key: kind for key, kind in _KINDS.items() if kind.op in MERGEABLE}


def _call(op: AtomicOp, target: str, index: str, value: str) -> str:
    expected = "e[gid.x], " if op is AtomicOp.COMPARE_EXCHANGE else ""
    return f"{ATOMIC_TEXT[op]}({target}, {index}, {expected}{value})"


def _rows(element: ScalarType) -> list[tuple[int, int, int]]:
    """Returns old, expected and new values; expected equals the old one in every other row."""
    values = samples(element)
    pairs = [(a, b) for a in values[::2] for b in values[1::2]]
    return [(a, a if k % 2 else b, b) for k, (a, b) in enumerate(pairs)]


def _check_rows(bench: Bench, kind: _Kind, body: str) -> None:
    """Checks a kernel whose lanes update an element of ``x`` each, by ``e`` and ``v``, and store its old value."""
    t, rows = kind.element.text, _rows(kind.element)
    kernel = f"""
    workgroup_size 32, 1, 1
    buffer x @0 read_write {t}[runtime]
    buffer e @1 read {t}[runtime]
    buffer v @2 read {t}[runtime]
    buffer old @3 write {t}[runtime] like x
    {body}
    """
    columns = [stored(kind.element, tuple(row[i] for row in rows)) for i in range(3)]
    new = stored(kind.element, tuple(scalar.atomic(kind.op, kind.element, *row) for row in rows))
    equal(bench.run(kernel, *columns), (new, columns[0]))


@ATOMICS.table(_KINDS)
def each_lane_its_own_element(bench: Bench, kind: _Kind) -> None:
    """An atomic returns the old value and stores the new one."""
    _check_rows(bench, kind, f"""body {{ old[gid.x] = {_call(kind.op, "x", "gid.x", "v[gid.x]")} }}""")


@ATOMICS.table(_KINDS)
def in_workgroup_memory(bench: Bench, kind: _Kind) -> None:
    """Atomics on workgroup memory follow the same rules."""
    body = f"""
    buffer shared @- workgroup {kind.element.text}[32]
    body {{
      shared[lid.x] = x[gid.x]
      barrier(seq_cst)
      old[gid.x] = {_call(kind.op, "shared", "lid.x", "v[gid.x]")}
      barrier(seq_cst)
      x[gid.x] = shared[lid.x]
    }}
    """
    _check_rows(bench, kind, body)


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

    sums = bench.run(kernel, stored(kind.element, (first, 0)), stored(kind.element, values))
    equal(sums, (stored(kind.element, (fold(first, values), fold(values[0], values[:64]))),))


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
    count, tickets = bench.run(kernel, words(0))
    equal((count, sorted(u32s(tickets))), (words(300), list(range(1, 301))))


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
