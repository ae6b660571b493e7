"""Laws and lowerings are verified before anything relies on them, and verdicts on lowerings are stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vyre
from vyre.adapters.disk.verdict_store import DIRECTORY, DiskVerdictStore, name_of
from vyre.app.dialects.verification import (
    CheckedLowerings,
    computed_by,
    lowering_key,
    operation_program,
    verify_laws,
)
from vyre.domain.dialects.laws.law import Law
from vyre.domain.dialects.lowering import (
    LoweringDifference,
    LoweringKey,
    LoweringVerdict,
    check_lowering,
    verdict_of_text,
    verdict_text,
)
from vyre.domain.errors import InvalidField, MalformedJson
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import Expr
from vyre.domain.ir.operators import FLOATS, INTEGERS
from vyre.domain.ir.types import ScalarType
from vyre.ports.proving import Answer, Proof
from vyre.testing.recording_telemetry import RecordingTelemetry

U32, I32, F32, BOOL = ScalarType.U32, ScalarType.I32, ScalarType.F32, ScalarType.BOOL
KEY = LoweringKey("acme.halve", "a" * 64, "b" * 64, "reference", "reference 1")


def side(text: str, dtype: ScalarType) -> Expr:
    return Law("a.law", text, text, frozenset({dtype})).at(dtype)[0]


def lowering(
    before: str, after: str, dtype: ScalarType, parameters: dict[str, ScalarType] | None = None
) -> tuple[Any, ...]:
    """The operands of ``check_lowering`` behind the key, computed by the reference."""
    types = parameters or {"x": dtype}
    session = vyre.open("reference")
    programs = (operation_program(types, dtype, side(text, dtype)) for text in (before, after))
    return (list(types.values()), dtype, *(computed_by(session.dispatch, program) for program in programs))


# ---------------------------------------------------------------- lowerings


def test_a_lowering_that_agrees_passes_on_samples_and_says_so() -> None:
    verdict = check_lowering(KEY, *lowering("x / 2", "x >> 1", U32))
    assert verdict.is_usable
    assert not verdict.is_exhaustive
    assert verdict.cases > 1 << 16
    assert "samples only" in str(verdict)


def test_a_lowering_that_differs_is_refused_with_operands() -> None:
    verdict = check_lowering(KEY, *lowering("x / 2", "x >> 1", I32))
    assert not verdict.is_usable
    assert verdict.difference is not None
    (operand,) = verdict.difference.operands
    assert operand >> 31, "a negative number"
    assert "refused" in str(verdict)


def test_nan_is_nan_whatever_its_bits() -> None:
    assert check_lowering(KEY, *lowering("x - x", "x + neg(x)", F32)).is_usable
    assert not check_lowering(KEY, *lowering("x + 0.0", "x", F32)).is_usable


def test_few_operands_are_all_tried() -> None:
    verdict = check_lowering(KEY, *lowering("p and q", "not(not(p) or not(q))", BOOL, {"p": BOOL, "q": BOOL}))
    assert (verdict.cases, verdict.is_exhaustive, verdict.is_usable) == (4, True, True)
    assert "all 4 operands" in str(verdict)
    verdict = check_lowering(KEY, *lowering("p and q", "p", BOOL, {"p": BOOL, "q": BOOL}))
    assert verdict.difference == LoweringDifference((1, 0), 0, 1)


def test_a_verdict_is_stored_and_asked_for_once(tmp_path: Path) -> None:
    asked = []
    parameters, result, definition, lowered = lowering("x / 2", "x >> 1", U32)

    def counted(columns: Any) -> Any:
        asked.append(len(columns))
        return lowered(columns)

    telemetry = RecordingTelemetry()
    for _ in range(2):
        checked = CheckedLowerings(DiskVerdictStore(str(tmp_path), telemetry))
        assert checked.is_usable(KEY) is bool(asked)
        assert checked.verdict(KEY, parameters, result, definition, counted).is_usable
        assert checked.is_usable(KEY)
    assert len(asked) == 1


@pytest.mark.parametrize(
    "change", [{"definition": "c" * 64}, {"lowering": "c" * 64}, {"backend": "cpu"}, {"version": "reference 2"}]
)
def test_a_verdict_is_about_one_definition_lowering_and_version(change: dict[str, str], tmp_path: Path) -> None:
    store = DiskVerdictStore(str(tmp_path), RecordingTelemetry())
    assert store.put(LoweringVerdict(KEY, 5, True))
    checked = CheckedLowerings(store)
    assert checked.is_usable(KEY)
    assert not checked.is_usable(replace(KEY, **change))


def test_a_refused_lowering_stays_refused(tmp_path: Path) -> None:
    store = DiskVerdictStore(str(tmp_path), RecordingTelemetry())
    refused = LoweringVerdict(KEY, 5, False, LoweringDifference((1, 2), 3, 4))
    assert store.put(refused)
    assert store.get(KEY) == refused
    assert not CheckedLowerings(store).is_usable(KEY)


def half(text: str, dtype: ScalarType) -> Definition:
    """``acme.half`` with this result of its parameter ``x``."""
    return Definition("acme.half", Version(1), (Parameter("x", dtype),), dtype, (), side(text, dtype))


def test_a_lowering_is_a_definition_that_is_bound_to_the_other_ones_digest(tmp_path: Path) -> None:
    checked = CheckedLowerings(DiskVerdictStore(str(tmp_path), RecordingTelemetry()))
    session = vyre.open("reference")
    for dtype, usable in ((U32, True), (I32, False)):
        definition, lowering_ = [half("x / 2", dtype)], [half("x >> 1", dtype)]
        key = lowering_key(definition, lowering_, "reference", "reference 1")
        verdict = checked.of_definitions(key, definition, lowering_, session.dispatch, session.dispatch)
        assert verdict.is_usable is usable
        assert checked.is_usable(key) is usable
        changed = lowering_key([half("x / 2 + 0", dtype)], lowering_, "reference", "reference 1")
        assert changed.definition != key.definition
        assert not checked.is_usable(changed)


def test_a_verdict_on_nothing_is_no_permission() -> None:
    assert not LoweringVerdict(KEY, 0, False).is_usable


def test_a_damaged_or_foreign_file_is_no_verdict_and_is_told(tmp_path: Path) -> None:
    telemetry = RecordingTelemetry()
    store = DiskVerdictStore(str(tmp_path), telemetry)
    assert store.put(LoweringVerdict(KEY, 5, True))
    path = tmp_path / DIRECTORY / name_of(KEY)
    whole = path.read_text()
    path.write_text(whole.replace(":5", ":6"))
    assert store.get(KEY) is None
    path.write_bytes(b"\xff\n")
    assert store.get(KEY) is None
    other = replace(KEY, operation="acme.other")
    path.write_text(verdict_text(LoweringVerdict(other, 5, True)) + "\n")
    assert store.get(KEY) is None
    path.write_text(whole)
    assert store.get(KEY) is not None
    assert store.get(other) is None


def test_verdicts_are_read_back_from_their_text() -> None:
    for verdict in (LoweringVerdict(KEY, 5, True), LoweringVerdict(KEY, 5, False, LoweringDifference((1, 2), 3, 4))):
        assert verdict_of_text(verdict_text(verdict)) == verdict
    for text in ("", "{}", verdict_text(LoweringVerdict(KEY, 5, True)).replace("reference", "cpu")):
        with pytest.raises(MalformedJson, match="Fix: "):
            verdict_of_text(text)
    with pytest.raises(InvalidField, match="64 hexadecimal digits"):
        replace(KEY, definition="a")


# ---------------------------------------------------------------- laws


class OneAnswer:
    """A prover that always says the same."""

    version = "none"

    def __init__(self, answer: Answer) -> None:
        self._proof = Proof(answer, reason="it says so")

    def prove_equal(self, *operands: Any, limit: int = 0) -> Proof:
        return self._proof


def test_laws_are_reported_type_by_type() -> None:
    true, trap = Law("a.true", "x + y", "y + x", INTEGERS), Law("a.trap", "x - x", "0.0", FLOATS)
    reports = list(verify_laws((true, trap)))
    assert [report.is_refused for report in reports] == [False] * 4 + [True] * 2
    assert "refuted" in str(reports[-1])
    (report,) = verify_laws((replace_types(true, U32),), OneAnswer(Answer.PROVED))
    assert str(report).endswith("; proved (it says so)")
    (report,) = verify_laws((replace_types(true, U32),), OneAnswer(Answer.REFUTED))
    assert report.is_refused


def replace_types(law: Law, dtype: ScalarType) -> Law:
    return Law(law.name, law.before, law.after, frozenset({dtype}))
