"""A proof that two programs do the same, by a prover: for lanes without loops, atomics and barriers.

What each lane stores, where and when, becomes expressions, and the prover compares those of both programs one by one.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Final, NamedTuple

from vyre.domain.dialects.expansion import expanded
from vyre.domain.ir.expr import Binary, Expr, Literal
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.walk import unique_expressions
from vyre.domain.optimize.lane_effects import Effect, Untraceable, facts_of_lane, ids_and_lengths, lane_effects
from vyre.ports.proving import Answer, Prover

STEPS: Final = 2_000_000
"""The prover's steps for one equation."""


class ProgramProof(NamedTuple):
    """The result of a proof: ``proved`` and, if it is False, ``why`` nothing was proved."""

    proved: bool
    why: str = ""

    @property
    def text(self) -> str:
        """The result in one line, for people."""
        return "proof: both programs do the same for all inputs" if self.proved else f"proof: none, since {self.why}"


def prove_programs(before: Program, after: Program, prover: Prover) -> ProgramProof:
    """Tries to prove that two valid programs of one interface store the same and trap alike, whatever the inputs are.

    A failure proves nothing: the programs may have loops, or effects in another order, or be too hard.  Raises
    ``UnsupportedFeature`` if the prover is not installed.
    """
    before, after = expanded(before), expanded(after)
    variable = _variable_divisor(before) or _variable_divisor(after)
    if variable:
        return ProgramProof(False, variable)
    try:
        proof = _Proof(before, after, prover)
        return proof.result()
    except Untraceable as untraceable:
        return ProgramProof(False, f"there is {untraceable}")
    except RecursionError:
        return ProgramProof(False, "the expressions are too deep")


def _variable_divisor(program: Program) -> str:
    """Returns a text if something is divided by what is no literal, which provers are slow to decide."""
    for expr in unique_expressions(program):
        if type(expr) is Binary and expr.op in (BinaryOp.DIV, BinaryOp.MOD) and type(expr.right) is not Literal:
            return "a divisor varies"
    return ""


class _Proof:
    def __init__(self, before: Program, after: Program, prover: Prover) -> None:
        self._prover = prover
        self._facts = facts_of_lane(before)
        self._before = lane_effects(before, lambda first, second: first == second)
        self._variables = ids_and_lengths(before) | self._before.variables
        self._after = lane_effects(after, self._same, self._before)
        self._variables |= self._after.variables

    def result(self) -> ProgramProof:
        for place, (first, second) in enumerate(zip_longest(self._before.effects, self._after.effects), 1):
            if first is None or second is None or first.target != second.target:
                return ProgramProof(False, f"effect {place} is another one")
            if not self._equal(first, second):
                return ProgramProof(False, f"effect {place}, on `{first.target}`, was not proved equal")
        return ProgramProof(True)

    def _equal(self, first: Effect, second: Effect) -> bool:
        if not self._same(first.guard, second.guard) or not self._same(first.place, second.place):
            return False
        if first.value is None or second.value is None:
            return first.value is second.value
        return self._same(first.value, second.value)

    def _same(self, first: Expr, second: Expr) -> bool:
        if first == second:
            return True
        proof = self._prover.prove_equal(first, second, self._variables, self._facts, limit=STEPS)
        return proof.answer is Answer.PROVED
