"""Steps that return at once when a word in memory is 0, and the one-lane programs that keep that word.

With them a list of launches that nobody can leave stands still after its last useful round: every backend runs it.
The *control* buffer holds the words of a grid loop: whether the next round runs, the rounds run so far, and the most.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from vyre.domain.grid_sync import WORDS_PER_LOOP, Rounds, first_lane, fresh_names, has_grid_barriers, plan_grid_sync
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.expr import Binary, Expr, Literal, Load
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.stmt import If
from vyre.domain.ir.types import ScalarType
from vyre.domain.validation.validator import check_rules

GO: Final = 0
ROUNDS: Final = 1
CONTROL_WORDS: Final = WORDS_PER_LOOP


@kept_with_program("guarded")
def guarded(program: Program) -> Program | None:
    """Returns the program with the control buffer behind its other buffers: where word ``GO`` is 0, it does nothing.

    None where that is impossible: outputs that a backend zeroes before each launch would be zeroed all the same, and
    grid barriers do not stand in a condition.  Cached on the program.
    """
    bound = [buffer for buffer in program.buffers if buffer.is_bound]
    if any(buffer.is_output for buffer in bound) or has_grid_barriers(program):
        return None
    (name,) = fresh_names(program, "grid_control")
    binding = 1 + max((buffer.binding for buffer in bound), default=-1)
    control = Buffer.make(name, binding, Access.READ_ONLY, ScalarType.U32, CONTROL_WORDS)
    result = replace(program, buffers=(*program.buffers, control), body=(If(_go(name), program.body, ()),))
    return result if check_rules(result).ok else None


def _go(control: str) -> Expr:
    return Binary(BinaryOp.NE, Load(control, Literal.of(ScalarType.U32, GO)), Literal.of(ScalarType.U32, 0))


@cache
def round_programs() -> tuple[Program, Program]:
    """Returns the programs that begin the rounds, and that end one and decide whether another begins.

    They are what a grid loop without a body is split into, and the second does nothing where word ``GO`` is 0.  Both
    have the parameter ``limit``, the most rounds, and the buffers ``flag`` and control.  The flag is left alone where
    no round is allowed, and keeps what the last one left.
    """
    (loop,) = plan_grid_sync(
        Program.from_text("""
        workgroup_size 1, 1, 1
        param limit @0 u32
        buffer flag @1 read_write u32[1]
        body { let rounds = grid_loop(limit, flag) { } }
        """)
    )
    assert isinstance(loop, Rounds)
    enter = replace(loop.enter, name="fixpoint_enter")
    # No other lane looks at the word that the first one writes.
    goes_on = If(_go(loop.advance.buffers[-1].name), loop.advance.body, ())
    return enter, replace(loop.advance, name="fixpoint_advance", body=(If(first_lane(), (goes_on,), ()),))


@cache
def clear_program() -> Program:
    """Returns the program that sets the flag to 0: buffer ``flag``."""
    return Program.from_text("""
    program fixpoint_clear
    workgroup_size 1, 1, 1
    buffer flag @0 read_write u32[1]
    body { if gid.x == 0u { flag[0u] = 0u } }
    """)
