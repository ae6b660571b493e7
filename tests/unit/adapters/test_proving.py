"""The prover behind the port: its terms mean what the rules of the language mean, and its record is up to date."""

from __future__ import annotations

import builtins
import random
from typing import Any, Final

import pytest

from support.egraphs.law_proofs import record
from vyre.adapters.proving import terms
from vyre.adapters.proving.prover import Z3Prover
from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.checker import boundary_values
from vyre.domain.dialects.laws.evaluation import SCALARS, evaluated
from vyre.domain.dialects.laws.law import Law
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir.expr import Binary, Bitcast, Cast, Expr, Fma, Literal, Narrow, Pack, Select, Unary, Unpack, Var
from vyre.domain.ir.operators import ANY_TYPE, BINARY, FLOATS, INTEGERS, TRANSCENDENTALS, UNARY, RightOperand
from vyre.domain.ir.types import NARROW_TYPES, ScalarType
from vyre.domain.numerics.scalar import is_nan
from vyre.domain.validation.typing import static_type
from vyre.ports.proving import Answer, Proof

U32, BOOL = ScalarType.U32, ScalarType.BOOL
LIMIT: Final = 3_000_000


def prove(law: Law, dtype: ScalarType, limit: int = LIMIT) -> Proof:
    return Z3Prover().prove_equal(*law.at(dtype), law.hole_types(dtype), law.condition_at(dtype), limit=limit)


@pytest.fixture
def _z3() -> None:
    pytest.importorskip("z3")


def operators() -> list[tuple[Expr, dict[str, ScalarType]]]:
    """Every operator the prover has, on variables of every type on which it is defined.

    One that engines make of others has no term, with which it would be proved by itself.
    """
    x, y, p = Var("x"), Var("y"), Var("p")
    found: list[tuple[Expr, dict[str, ScalarType]]] = []
    for op, row in BINARY.items():
        for dtype in row.operands:
            counts = {dtype, U32} if row.right is RightOperand.SHIFT else {dtype}
            found += [(Binary(op, x, y), {"x": dtype, "y": count}) for count in counts if row.lowers_to is None]
    for unary, unary_row in UNARY.items():
        if unary not in TRANSCENDENTALS:
            found += [(Unary(unary, x), {"x": dtype}) for dtype in unary_row.operands]
    for dtype in ANY_TYPE:
        found += [(Cast(target, x), {"x": dtype}) for target in ANY_TYPE]
        found.append((Select(p, x, y), {"p": BOOL, "x": dtype, "y": dtype}))
        found += [
            (Bitcast(target, x), {"x": dtype})
            for target in ANY_TYPE
            if static_type(Bitcast(target, x), {"x": dtype}, {}) is not None
        ]
    found += [(Fma(x, y, Var("z")), dict.fromkeys("xyz", dtype)) for dtype in FLOATS]
    for narrow in NARROW_TYPES:
        found += [(Narrow(narrow, x), {"x": narrow.widened}), (Pack(narrow, x), {"x": narrow.widened})]
        found.append((Unpack(narrow, x), {"x": U32}))
    return found


@pytest.mark.usefixtures("_z3")
@pytest.mark.parametrize("part", range(8))
def test_terms_have_the_values_of_the_scalar_rules(part: int) -> None:
    """On operands that are literals the prover proves the value that the rules give, and refutes another one."""
    source, prover = random.Random(part), Z3Prover()
    for expr, types in operators()[part::8]:
        result = static_type(expr, types, {})
        assert result is not None
        for _ in range(6):
            values = {name: source.choice(boundary_values(t)) for name, t in types.items()}
            literals = {name: Literal(t, values[name]) for name, t in types.items()}
            bits = evaluated(expr, types, values, SCALARS)
            closed = substituted(expr, literals)
            proof = prover.prove_equal(closed, Literal(result, bits), {})
            assert proof.answer is Answer.PROVED, (closed, bits)
            other = Literal(result, bits ^ 1)
            if not is_nan(result, bits):
                assert prover.prove_equal(closed, other, {}).answer is Answer.REFUTED, (closed, bits)


def substituted(expr: Expr, literals: dict[str, Literal]) -> Expr:
    from vyre.domain.ir.rebuilding import rebuilt

    def change(node: Any) -> Any:
        return literals[node.name] if type(node) is Var else node

    made: Expr = rebuilt(expr, change)
    return made


@pytest.mark.usefixtures("_z3")
@pytest.mark.parametrize(
    ("before", "after", "types"),
    [
        ("x + 0.0", "x", FLOATS),
        ("x / x", "1", INTEGERS),
        ("0 / x", "0", frozenset({U32})),
        ("sat_add(sat_add(x, y), z)", "sat_add(x, sat_add(y, z))", frozenset({ScalarType.I32})),
        ("min(x, max(x, y))", "x", FLOATS),
    ],
)
def test_a_trap_is_refuted_by_values_that_show_it(before: str, after: str, types: frozenset[ScalarType]) -> None:
    law = Law("a.law", before, after, types)
    for dtype in types:
        proof = prove(law, dtype, 50_000_000)
        assert proof.answer is Answer.REFUTED
        assert proof.values is not None
        first, second = (evaluated(side, law.hole_types(dtype), proof.values, SCALARS) for side in law.at(dtype))
        assert first != second


@pytest.mark.usefixtures("_z3")
def test_conditions_are_assumed() -> None:
    assert prove(Law("a.law", "x / c", "x >> ctz(c)", frozenset({U32}), where="popcount(c) == 1"), U32, 10**8)[0] in (
        Answer.PROVED,
        Answer.UNPROVED,
    )
    assert prove(Law("a.law", "x / c", "x >> 1u", frozenset({U32}), where="c == 2"), U32).answer is Answer.PROVED
    assert prove(Law("a.law", "x / c", "x >> 1u", frozenset({U32}), where="c == 3"), U32).answer is Answer.REFUTED


@pytest.mark.usefixtures("_z3")
def test_cases_are_all_that_the_condition_leaves() -> None:
    """Every power of two beyond 64 is a case; 65 satisfies the condition, too, and refutes the equation."""
    proof = prove(Law("a.law", "popcount(c) == 1", "true", frozenset({U32}), where="c > 64"), U32)
    assert proof.answer is Answer.REFUTED
    assert proof.values is not None
    assert proof.values["c"].bit_count() != 1


@pytest.mark.usefixtures("_z3")
def test_every_value_of_a_bool_is_a_case() -> None:
    law = Law("a.law", "select(p, x, 1)", "x", frozenset({U32}), holes={"p": BOOL})
    proof = prove(law, U32)
    assert proof.answer is Answer.REFUTED
    assert proof.values is not None
    assert proof.values["p"] == 0
    assert proof.values["x"] != 1


@pytest.mark.usefixtures("_z3")
def test_what_has_no_term_or_takes_too_long_is_unproved() -> None:
    proof = prove(Law("a.law", "cos(neg(x))", "cos(x)", frozenset({ScalarType.F32})), ScalarType.F32)
    assert proof == Proof(Answer.UNPROVED, reason="cos has no term")
    hard = prove(Law("a.law", "(x / c) * c + x % c", "x", frozenset({U32}), where="c != 0"), U32, 1000)
    assert hard == Proof(Answer.UNPROVED, reason="no answer within 1000 steps")


def test_a_missing_package_is_a_typed_error_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "z3":
            raise ImportError(name)
        return real(name, *rest, **named)

    terms.z3.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnsupportedFeature, match=r"pip install 'vyre\[prove\]'"):
        prove(LAWS[0], U32)
    monkeypatch.undo()
    terms.z3.cache_clear()


# ---------------------------------------------------------------- the record


def test_the_record_is_about_the_laws_as_they_are() -> None:
    found = record()["laws"]
    assert {law.name: law.digest for law in LAWS} == {name: entry["digest"] for name, entry in found.items()}
    for law in LAWS:
        entry = found[law.name]
        assert sorted([*entry["proved"], *entry["unproved"]]) == sorted(dtype.text for dtype in law.types)


def test_nine_of_ten_equations_are_proved() -> None:
    entries = record()["laws"].values()
    proved, unproved = (sum(len(entry[way]) for entry in entries) for way in ("proved", "unproved"))
    assert proved > 9 * unproved


@pytest.mark.usefixtures("_z3")
def test_what_the_record_calls_proved_is_proved() -> None:
    """A part of the record, for which the prover needs few steps."""
    found = record()["laws"]
    for law in LAWS[::60]:
        for dtype in law.types:
            if dtype.text in found[law.name]["proved"]:
                assert prove(law, dtype, 10_000_000).answer is Answer.PROVED, (law, dtype)
