"""``Z3Prover``: the port ``ports.proving`` by z3, which is imported by the first proof."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

from vyre.adapters.proving.terms import TermAlgebra, Unprovable, z3
from vyre.domain.dialects.laws.evaluation import SCALARS, evaluated
from vyre.domain.ir.expr import Expr, Var, walk
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.scalar import float_format
from vyre.ports.proving import Answer, Proof

LIMIT: Final = 10_000_000
"""z3's steps for one equation by default, some seconds."""
LIMIT_MS: Final = 60_000
"""The time after which a proof ends although its steps are not used up, for a step that takes very long."""


MOST_CASES: Final = 4096
"""The greatest number of combinations of constants and bools that are proved one by one."""

Case: TypeAlias = dict[str, int]
"""Bit patterns of some of the variables."""


class Z3Prover:
    """Proves by refutation: z3 looks for values on which two expressions differ.

    Each value of the bools is a proof of its own, and so is each value of the variables of the condition if they have
    few: with literals in their place, most equations are simplified away.
    """

    @property
    def version(self) -> str:
        """Returns ``z3`` and its version; raises ``UnsupportedFeature`` if it is not installed."""
        return f"z3 {z3().get_version_string()}"

    def prove_equal(
        self,
        before: Expr,
        after: Expr,
        variables: Mapping[str, ScalarType],
        condition: Expr | None = None,
        /,
        *,
        limit: int = LIMIT,
    ) -> Proof:
        """Returns whether two expressions are equal; see ``Prover.prove_equal``.  ``limit`` holds for each case."""
        try:
            equation = _Equation(before, after, variables, condition)
        except Unprovable as without:
            return Proof(Answer.UNPROVED, reason=f"{without} has no term")
        for case in equation.cases(limit):
            proof = equation.proof(case, limit)
            if proof.answer is not Answer.PROVED:
                return proof
        return Proof(Answer.PROVED)


class _Equation:
    """Two expressions as terms, with the condition under which they are to be equal."""

    def __init__(self, before: Expr, after: Expr, variables: Mapping[str, ScalarType], condition: Expr | None) -> None:
        self._variables, self._condition, self._algebra = variables, condition, TermAlgebra()
        self._terms = {name: self._algebra.variable(name, dtype) for name, dtype in variables.items()}
        first, second = (self._of(side) for side in (before, after))
        self._met = z3().BoolVal(True) if condition is None else self._of(condition)
        self._wrong = z3().And(self._met, first != second)

    def _of(self, expr: Expr) -> Any:
        return evaluated(expr, self._variables, self._terms, self._algebra)

    def cases(self, limit: int) -> list[Case]:
        """Returns values of some variables that together are all there are, given the condition."""
        bools = [name for name, dtype in self._variables.items() if dtype is ScalarType.BOOL]
        cases: list[Case] = [dict(zip(bools, bits, strict=True)) for bits in product((0, 1), repeat=len(bools))]
        constants = self._constants(limit)
        cases = [{**case, **constant} for case in cases for constant in constants]
        return cases if len(cases) <= MOST_CASES else [{}]

    def _constants(self, limit: int) -> list[Case]:
        """Returns all values of the variables of the condition that satisfy it, or one empty case if they are many."""
        if self._condition is None:
            return [{}]
        types = {node.name: self._variables[node.name] for node in walk(self._condition) if type(node) is Var}
        candidates = [_few_values(dtype) for dtype in types.values()]
        if prod(map(len, candidates)) > 1 << 16:
            return [{}]
        tried = (dict(zip(types, bits, strict=True)) for bits in product(*candidates))
        cases = [case for case in tried if evaluated(self._condition, types, case, SCALARS)]
        solver = _solver(limit)
        solver.add(self._met, *[z3().Not(z3().And(*self._equal(case))) for case in cases])
        return cases if solver.check() == z3().unsat else [{}]

    def _equal(self, case: Case) -> list[Any]:
        return [self._terms[name] == self._literal(name, bits) for name, bits in case.items()]

    def _literal(self, name: str, bits: int) -> Any:
        return self._algebra.literal(self._variables[name], bits)

    def proof(self, case: Case, limit: int) -> Proof:
        """Returns what z3 says of one case."""
        pairs = [(self._terms[name], self._literal(name, bits)) for name, bits in case.items()]
        solver = _solver(limit)
        solver.add(z3().simplify(z3().substitute(self._wrong, *pairs)) if pairs else self._wrong)
        verdict = solver.check()
        if verdict == z3().unsat:
            return Proof(Answer.PROVED)
        if verdict != z3().sat:
            return Proof(Answer.UNPROVED, reason=f"no answer within {limit} steps")
        return Proof(Answer.REFUTED, {**_values(solver.model(), self._terms, self._variables), **case})


def _solver(limit: int) -> Any:
    solver = z3().Solver()
    solver.set("rlimit", limit)
    solver.set("timeout", LIMIT_MS)
    return solver


def _few_values(dtype: ScalarType) -> list[int]:
    """Returns the values that conditions on constants often leave: counts and powers of two."""
    if dtype.is_float:
        form = float_format(dtype)
        positive = [field << form.fraction for field in range(1, (1 << form.exponent) - 1)]
        return [*positive, *(bits | form.sign for bits in positive)]
    return sorted({*range(65), *(1 << place for place in range(dtype.bits))})


def _values(model: Any, terms: Mapping[str, Any], variables: Mapping[str, ScalarType]) -> dict[str, int]:
    return {name: _bits(model.eval(term, model_completion=True), variables[name]) for name, term in terms.items()}


def _bits(value: Any, dtype: ScalarType) -> int:
    m = z3()
    if dtype is ScalarType.BOOL:
        return int(m.is_true(value))
    if not dtype.is_float:
        return int(value.as_long())
    if value.isNaN():
        return float_format(dtype).quiet_nan
    return int(m.simplify(m.fpToIEEEBV(value)).as_long())
