"""Each law of the catalogue, flipped, is refuted by the checker, or shown to be true itself."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from support.egraphs.law_mutants import mutants
from support.profiles import SOAK
from vyre.adapters.proving.prover import Z3Prover
from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.checker import Verdict, check
from vyre.domain.dialects.laws.law import Law
from vyre.domain.ir.operators import INTEGERS
from vyre.domain.ir.types import ScalarType
from vyre.ports.proving import Answer

UNPROVED: Final = {
    "cos.negated: cos ( abs ( x ) ) = cos(x)": "an even function, as by cos.of_abs",
    "cos.of_abs: cos ( neg ( x ) ) = cos(x)": "an even function, as by cos.negated",
    "cosh.negated: cosh ( abs ( x ) ) = cosh(x)": "an even function, as by cosh.of_abs",
    "cosh.of_abs: cosh ( neg ( x ) ) = cosh(x)": "an even function, as by cosh.negated",
}
"""Mutants that have neither a model nor a proof, with the reason why they hold."""


def outcome(verdict: Verdict) -> str:
    """``refuted``, ``vacuous``, ``true`` where all values of a model were tried, else ``sampled``."""
    if verdict.is_refuted:
        return "refuted"
    if not verdict.is_accepted:
        return "vacuous"
    return "true" if any(trial.is_exhaustive and " bits" in trial.what for trial in verdict.trials) else "sampled"


def campaign(laws: tuple[Law, ...], offset: int) -> Counter[str]:
    """The number of outcomes over all mutants of the laws, each law at one type.

    A mutant that has no model and was not refuted must be proved, or be listed in ``UNPROVED``.
    """
    outcomes: Counter[str] = Counter()
    for index, law in enumerate(laws):
        types = sorted(law.types, key=lambda t: t.value)
        dtype = types[(index + offset) % len(types)]
        for mutant in mutants(law, dtype):
            found = outcome(check(mutant, dtype))
            outcomes[found] += 1
            if found == "sampled" and str(mutant) not in UNPROVED:
                pytest.importorskip("z3")
                assert is_proved(mutant, dtype), f"{mutant} at {dtype.text}"
    return outcomes


def is_proved(law: Law, dtype: ScalarType) -> bool:
    proof = Z3Prover().prove_equal(*law.at(dtype), law.hole_types(dtype), law.condition_at(dtype))
    return proof.answer is Answer.PROVED


def test_mutants_of_a_law() -> None:
    law = Law("a.law", "x + 0", "x", INTEGERS)
    found = {f"{mutant.before} = {mutant.after}" for mutant in mutants(law, ScalarType.U32)}
    assert found == {"x - 0 = x", "x * 0 = x", "x + 1 = x"}


def test_a_condition_left_out_is_a_mutant() -> None:
    law = Law("a.law", "x * c", "x << ctz(c)", INTEGERS, where="popcount(c) == 1")
    assert any(mutant.where is None and mutant.before == law.before for mutant in mutants(law, ScalarType.U32))


def test_flipped_laws_are_caught() -> None:
    outcomes = campaign(LAWS[::40], 0)
    assert outcomes["refuted"] > 10 * outcomes["true"]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_every_flipped_law_is_caught(part: int) -> None:
    """A soak tries the mutants of every law, other runs those of one in five."""
    outcomes = campaign(LAWS[part :: 20 if SOAK else 100], part)
    assert outcomes["refuted"] > 5 * outcomes["true"]
