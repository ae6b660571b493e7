"""``Z3Prover``: the port ``ports.proving`` by z3, which is imported by the first proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vyre.adapters.proving.terms import TermAlgebra, Unprovable, z3
from vyre.domain.dialects.laws.evaluation import evaluated
from vyre.domain.ir.expr import Expr
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.scalar import float_format
from vyre.ports.proving import Answer, Proof

LIMIT: Final = 10_000_000
"""z3's steps for one equation by default, some seconds."""
LIMIT_MS: Final = 60_000
"""The time after which a proof ends although its steps are not used up, for a step that takes very long."""


class Z3Prover:
    """Proves by refutation: z3 looks for values on which two expressions differ."""

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
        """Returns whether two expressions are equal; see ``Prover.prove_equal``."""
        algebra = TermAlgebra()
        terms = {name: algebra.variable(name, dtype) for name, dtype in variables.items()}
        try:
            first, second = (evaluated(side, variables, terms, algebra) for side in (before, after))
            met = None if condition is None else evaluated(condition, variables, terms, algebra)
        except Unprovable as without:
            return Proof(Answer.UNPROVED, reason=f"{without} has no term")
        solver = z3().Solver()
        solver.set("rlimit", limit)
        solver.set("timeout", LIMIT_MS)
        if met is not None:
            solver.add(met)
        solver.add(first != second)
        found = solver.check()
        if found == z3().unsat:
            return Proof(Answer.PROVED)
        if found != z3().sat:
            return Proof(Answer.UNPROVED, reason=f"no answer within {limit} steps")
        return Proof(Answer.REFUTED, _values(solver.model(), terms, variables))


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
