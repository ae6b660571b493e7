"""Rules of single unsigned values, prepared for many calls, are the rules of single values."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.adapters.reference.vector.integers import INT_RULES
from vyre.domain.ir.operators import BinaryOp, binary_result
from vyre.domain.ir.types import ScalarType, bool_, u8, u16, u32, u64
from vyre.domain.numerics.scalar import binary, unsigned_rule

OF_THE_TYPE: Final = frozenset(
    {
        BinaryOp.DIV,
        BinaryOp.ROTATE_LEFT,
        BinaryOp.ROTATE_RIGHT,
        BinaryOp.SATURATING_ADD,
        BinaryOp.SATURATING_SUB,
        BinaryOp.SATURATING_MUL,
        BinaryOp.MUL_HIGH,
    }
)
"""Operators whose rule depends on the width."""
OPERATORS: Final = [op for op in BinaryOp if binary_result(op, u32, u32) is not None]
EDGES: Final = (0, 1, 2, 31, 32, 33, 63, 64, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
NUMBERS: Final = st.sampled_from(EDGES) | st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("dtype", [u8, u16, u32, u64])
@pytest.mark.parametrize("op", [op for op in OPERATORS if op not in OF_THE_TYPE])
@given(a=NUMBERS, b=NUMBERS)
def test_a_prepared_rule_answers_like_the_rule(op: BinaryOp, dtype: ScalarType, a: int, b: int) -> None:
    mask = (1 << dtype.bits) - 1
    found = unsigned_rule(op, dtype)(a & mask, b & mask)
    assert found == binary(op, dtype, a & mask, b & mask)
    assert isinstance(found, bool) == (binary_result(op, u32, u32) is bool_)


@pytest.mark.parametrize("op", [op for op in OPERATORS if op in OF_THE_TYPE])
def test_rules_that_depend_on_the_type_are_not_prepared(op: BinaryOp) -> None:
    with pytest.raises(KeyError):
        unsigned_rule(op, u32)


@pytest.mark.parametrize("op", [op for op in OPERATORS if op in INT_RULES])
@given(a=NUMBERS, b=NUMBERS)
def test_known_words_of_the_vector_engine_follow_the_same_rules(op: BinaryOp, a: int, b: int) -> None:
    mask = 2**32 - 1
    assert INT_RULES[op](a & mask, b & mask) == binary(op, u32, a & mask, b & mask)
