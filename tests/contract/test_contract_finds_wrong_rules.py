"""Rules of the reference engine, each replaced by a plausible wrong one, and the contract cases that must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vyre.adapters import lanes
from vyre.adapters.discovery import load_catalog
from vyre.adapters.lanes import floating, narrowing
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.types import ScalarType, bf16, f16, i8, u8
from vyre.testing.backend_contract import CASES, Subject, run_cases
from vyre.testing.outcomes import Verdict

Rule = Callable[[Any], Any]


def failures(pattern: str) -> list[str]:
    registration = load_catalog().get("reference")
    assert registration is not None
    with Subject(registration) as subject:
        outcomes = list(run_cases(CASES, subject, pattern))
    assert outcomes, f"no case fits {pattern}"
    return [outcome.name for outcome in outcomes if outcome.verdict is Verdict.FAILED]


def without_subnormals(x: Any) -> Any:
    narrowed = np.asarray(lanes.load_convert(f16)(lanes.store_convert(f16)(x)))
    return np.where(np.absolute(narrowed) < np.float32(2.0**-14), np.copysign(np.float32(0), x), narrowed)


def saturated(x: Any) -> Any:
    greatest = np.float32(65504)
    inside = np.where(np.isfinite(x), np.clip(x, -greatest, greatest), x)
    return np.asarray(lanes.load_convert(f16)(lanes.store_convert(f16)(inside)))


def towards_zero(x: Any) -> Any:
    rounded = np.asarray(lanes.load_convert(f16)(lanes.store_convert(f16)(x)))
    return np.where(np.absolute(rounded) > np.absolute(x), np.nextafter(rounded, np.float32(0)), rounded)


def ties_away(x: Any) -> Any:
    word = x.view(np.uint32)
    return np.where(np.isnan(x), x, (word + np.uint32(0x8000) & np.uint32(0xFFFF_0000)).view(np.float32))


def with_the_sign_of_nan(x: Any) -> Any:
    packed = narrowing.half_bits(x)
    return np.where(np.isnan(x), packed | x.view(np.uint32) >> np.uint32(16) & np.uint32(0x8000), packed)


@pytest.mark.parametrize(
    ("table", "dtype", "wrong", "pattern"),
    [
        ("_NARROW", f16, without_subnormals, "narrow.narrow.f16"),
        ("_NARROW", f16, saturated, "narrow.narrow.f16"),
        ("_NARROW", f16, towards_zero, "narrow.narrow.f16"),
        ("_NARROW", f16, towards_zero, "narrow.arithmetic_is_rounded_once.add_f16"),
        ("_NARROW", f16, lambda x: x, "narrow.arithmetic_is_rounded_once.div_f16"),
        ("_NARROW", f16, lambda x: x, "narrow.products_and_sums_round_where_it_is_written.narrow_between_f16"),
        ("_NARROW", bf16, ties_away, "narrow.narrow.bf16"),
        ("_NARROW", bf16, ties_away, "narrow.of_literals.bf16"),
        ("_NARROW", i8, lambda x: x & np.int32(0xFF), "narrow.narrow.i8"),
        ("_PACK", f16, with_the_sign_of_nan, "narrow.pack.f16"),
        ("_PACK", i8, lambda x: x.view(np.uint32), "narrow.pack.i8"),
        ("_UNPACK", u8, lambda word: word, "narrow.unpack.u8"),
        ("_UNPACK", i8, lambda word: (word & np.uint32(0xFF)).view(np.int32), "narrow.unpack.i8"),
        ("_PACK", f16, with_the_sign_of_nan, "operators.known_answers.the_bits_of_a_narrow_nan"),
    ],
)
def test_a_wrong_rule_of_narrow_values(
    monkeypatch: pytest.MonkeyPatch, table: str, dtype: ScalarType, wrong: Rule, pattern: str
) -> None:
    assert failures(pattern) == []
    monkeypatch.setitem(getattr(narrowing, table), dtype, wrong)
    assert failures(pattern) == [pattern]


def test_a_cast_that_saturates_is_none_that_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "wrap_cast", lanes.cast)
    assert len(failures("narrow.wrap_cast.*")) == 8


def test_halves_away_from_zero_are_not_halves_to_even(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(floating.FLOAT_UNARY, UnaryOp.ROUND_EVEN, floating.FLOAT_UNARY[UnaryOp.ROUND])
    assert failures("operators.unary.round_even_*") == [
        "operators.unary.round_even_f32",
        "operators.unary.round_even_f64",
    ]
