"""Programs in lockstep: large workgroups, long chains, and what lives from one region to the next."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from support.cpu.kernels import Runner, Variant, compiled, emitted
from support.programs import Case, Order
from support.running import Outputs, oracle
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.llvm.phases import Phases, split
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import walk_statements

TICKETS = """
program tickets
workgroup_size 1000, 1, 1
buffer next @0 read_write u32[1] output
buffer y @1 write u32[2000]
body {
  let sum = 0u
  for k in 0u .. lid.x % 4u {
    let ticket = atomic_add(next, 0u, 1u)
    if ticket % 5u == 1u {
      continue
    }
    sum := sum * 7u + ticket
    if ticket % 31u == 30u {
      break
    }
  }
  y[gid.x] = sum
}
"""
ROWS = """
program rows
workgroup_size 32, 4, 1
buffer y @0 write u32[128]
buffer sh @- workgroup u32[128]
body {
  let row = lid.y * 3u + 1u
  let next = row * 5u
  sh[lid.y * 32u + lid.x] = row + lid.x
  barrier(seq_cst)
  y[lid.y * 32u + lid.x] = sh[127u - lid.x] * next
}
"""


GUARDED = """
program guarded
workgroup_size 24, 1, 1
buffer next @0 read_write u32[1] output
buffer x @1 read u32[48]
buffer y @2 write u32[48]
body {
  if lid.x == 13u {
    return
  }
  let own = x[gid.x] + gid.x
  let first = atomic_add(next, 0u, 1u)
  let second = atomic_add(next, 0u, 1u)
  y[gid.x] = own * 10000u + first * 100u + second
}
"""


def _check(text: str, variant: Variant, grid: tuple[int, int, int]) -> None:
    """Compares a program without inputs, or with zeros, on the CPU and on the oracle."""
    program, config = Program.from_text(text), DispatchConfig(grid=grid)
    inputs = {b.name: bytes(b.static_nbytes or 0) for b in program.abi_buffers if b.takes_input}
    (code,) = compiled([(emitted(program, config, program.workgroup_size, variant), variant)])
    found = Runner().run(code, program, inputs, config)
    assert isinstance(found, Outputs)
    assert found == oracle(Case(program, inputs, config, Order.ATOMIC))


@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_a_large_workgroup_draws_tickets_in_order(lanes: int) -> None:
    _check(TICKETS, Variant(lanes), (2, 1, 1))


def test_the_stack_does_not_grow_with_the_workgroup() -> None:
    program = Program.from_text(TICKETS)
    texts = [emit(replace(program, workgroup_size=(size, 1, 1)), EmitOptions(lanes=8)).text for size in (50, 1000)]
    few, many = (re.findall(r"alloca (.*)", text) for text in texts)
    assert few == many


@pytest.mark.parametrize("lanes", [1, 8, 16, 32])
def test_a_local_of_a_row_lives_across_a_barrier(lanes: int) -> None:
    """A local that depends on another one of its region, on which the lanes of a vector agree, may be repeated."""
    _check(ROWS, Variant(lanes), (1, 1, 1))


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_a_local_behind_an_early_end_lives_on(lanes: int) -> None:
    """Also in the vectors in which all lanes go on."""
    _check(GUARDED, Variant(lanes), (2, 1, 1))


def test_a_long_chain_of_conditions_with_atomics() -> None:
    links = " else ".join(
        f"if atomic_add(c, 0u, 1u) + atomic_add(c, 0u, 1u) < {n * 9}u {{\n y[gid.x] = {n}u\n }}" for n in range(200)
    )
    text = (
        "program chain\nworkgroup_size 20, 1, 1\nbuffer c @0 read_write u32[1]\nbuffer y @1 write u32[20]\n"
        f"body {{\n{links}\n}}\n"
    )
    _check(text, Variant(4), (1, 1, 1))


def test_statements_are_split_where_a_phase_must_wait() -> None:
    program = Program.from_text(
        "program p\nworkgroup_size 8, 1, 1\nbuffer c @0 read_write u32[1]\nbuffer x @1 read u32[8]\n"
        "buffer y @2 read_write u32[8]\nbody {\n"
        "  y[gid.x] = y[gid.x + 1u] + x[gid.x]\n"
        "  let both = atomic_add(c, 0u, x[0u]) * atomic_add(c, 0u, 2u)\n"
        "  y[gid.x] = both + x[1u] + x[2u]\n}\n"
    )
    parts = split(program)
    lines = [line.strip() for line in parts.to_text().splitlines()]
    assert lines[lines.index("body {") + 1 : -1] == [
        'let "phase 1" = y[gid.x + 1u]',
        'y[gid.x] = "phase 1" + x[gid.x]',
        'let "phase 2" = atomic_add(c, 0u, x[0u])',
        'let "phase 3" = atomic_add(c, 0u, 2u)',
        'let both = "phase 2" * "phase 3"',
        "y[gid.x] = both + x[1u] + x[2u]",
    ]
    phases = Phases(parts, counting=False)
    assert not any(phases.of(stmt).conflicts for stmt in walk_statements(parts.body))
