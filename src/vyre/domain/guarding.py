"""Steps that return at once when a word in memory is 0, and the one-lane programs that keep that word.

With them a list of launches that nobody can leave stands still after its last useful round: every backend runs it.
The *control* buffer holds four u32: whether the next round runs, the rounds run so far, the flag that the last of them
left, and the most rounds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from vyre.domain.grid_sync import fresh_names, has_grid_barriers
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.expr import Binary, Literal, Load
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import If
from vyre.domain.ir.types import ScalarType
from vyre.domain.validation.validator import check_rules

GO: Final = 0
ROUNDS: Final = 1
CHANGED: Final = 2
LIMIT: Final = 3
CONTROL_WORDS: Final = 4
_CACHED: Final = "guarded"


def guarded(program: Program) -> Program | None:
    """Returns the program with the control buffer behind its other buffers: where word ``GO`` is 0, it does nothing.

    None where that is impossible: outputs that a backend zeroes before each launch would be zeroed all the same, and
    grid barriers do not stand in a condition.  Cached on the program.
    """
    if _CACHED not in program._cache:
        program._cache[_CACHED] = _guarded(program)
    return program._cache[_CACHED]  # type: ignore[return-value]


def _guarded(program: Program) -> Program | None:
    bound = [buffer for buffer in program.buffers if buffer.is_bound]
    if any(buffer.is_output for buffer in bound) or has_grid_barriers(program):
        return None
    (name,) = fresh_names(program, "grid_control")
    binding = 1 + max((buffer.binding for buffer in bound), default=-1)
    control = Buffer.make(name, binding, Access.READ_ONLY, ScalarType.U32, CONTROL_WORDS)
    go = Binary(BinaryOp.NE, Load(name, Literal.of(ScalarType.U32, GO)), Literal.of(ScalarType.U32, 0))
    made = replace(program, buffers=(*program.buffers, control), body=(If(go, program.body, ()),))
    return made if check_rules(made).ok else None


@cache
def enter_program() -> Program:
    """Returns the program that begins the rounds: buffers ``control`` and ``flag``.  It leaves the flag alone where no
    round is allowed.
    """
    return Program.from_text("""
    program fixpoint_enter
    workgroup_size 1, 1, 1
    buffer control @0 read_write u32[4]
    buffer flag @1 read_write u32[1]
    body {
      if gid.x == 0u {
        control[0u] = select(control[3u] != 0u, 1u, 0u)
        control[1u] = 0u
        control[2u] = 0u
        if control[3u] != 0u { flag[0u] = 0u }
      }
    }
    """)


@cache
def advance_program() -> Program:
    """Returns the program that ends a round and decides whether another begins: buffers ``control`` and ``flag``."""
    return Program.from_text("""
    program fixpoint_advance
    workgroup_size 1, 1, 1
    buffer control @0 read_write u32[4]
    buffer flag @1 read_write u32[1]
    body {
      if gid.x == 0u {
        if control[0u] != 0u {
          let rounds = control[1u] + 1u
          let changed = flag[0u]
          control[1u] = rounds
          control[2u] = changed
          let more = select(changed != 0u, select(rounds < control[3u], 1u, 0u), 0u)
          control[0u] = more
          if more != 0u { flag[0u] = 0u }
        }
      }
    }
    """)


@cache
def clear_program() -> Program:
    """Returns the program that sets the flag to 0: buffer ``flag``."""
    return Program.from_text("""
    program fixpoint_clear
    workgroup_size 1, 1, 1
    buffer flag @0 read_write u32[1]
    body { if gid.x == 0u { flag[0u] = 0u } }
    """)
