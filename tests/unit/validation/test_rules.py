"""Every rule is triggered alone by a program, and not by its near twin; the catalogue lists what can be reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.kernels import located
from support.validation.rule_cases import RULE_CASES, RuleCase
from support.validation.wide_rule_cases import WIDE_RULE_CASES
from vyre.domain.diagnostics import Severity
from vyre.domain.program_report import InvalidProgram, Report
from vyre.domain.validation import rules
from vyre.domain.validation.rules import RULES
from vyre.domain.validation.validator import validate

PAGE = (Path(__file__).parents[3] / "docs" / "validation.md").read_text("utf-8")
RETIRED = set(re.findall(r"^\| (V\d{3}) \|", PAGE, re.MULTILINE))
_CASES = RULE_CASES + WIDE_RULE_CASES
_EVERY_CASE = pytest.mark.parametrize("case", _CASES, ids=lambda case: f"{case.code} {case.what}")


def _codes(report: Report) -> set[str]:
    """Codes of errors and warnings; of notes only where there is nothing worse."""
    return {found.code for found in report.errors + report.warnings or report.notes}


@_EVERY_CASE
def test_a_broken_program_breaks_this_rule_alone(case: RuleCase) -> None:
    report = validate(case.broken)
    assert _codes(report) == {case.code}, report.render()
    assert report.ok == (RULES[case.code].severity is not Severity.ERROR)


@_EVERY_CASE
def test_the_near_twin_is_legal(case: RuleCase) -> None:
    report = validate(case.legal)
    assert report.errors + report.warnings == (), report.render()
    assert case.code not in _codes(report)
    report.raise_if_invalid()


@_EVERY_CASE
def test_diagnostics_say_where_and_what_to_do(case: RuleCase) -> None:
    report = validate(located(case.broken))
    for diagnostic in report.diagnostics:
        assert diagnostic.loc is not None
        assert diagnostic.fix
    if not report.ok:
        with pytest.raises(InvalidProgram, match=case.code) as raised:
            report.raise_if_invalid()
        assert raised.value.report is report
        assert "Fix: " in str(raised.value)


def test_every_rule_has_a_case() -> None:
    assert {case.code for case in _CASES} == set(RULES)


def test_the_catalogue_lists_exactly_what_the_checks_report() -> None:
    sources = [path for path in Path(rules.__file__).parent.glob("*.py") if path.name != "rules.py"]
    mentioned = {code for path in sources for code in re.findall(r'"(V\d{3})"', path.read_text(encoding="utf-8"))}
    assert mentioned == set(RULES)
    assert not set(RULES) & RETIRED


def test_the_rendered_catalogue_has_every_code() -> None:
    for code, rule in RULES.items():
        assert f"## {code}: {rule.title}\n" in PAGE
        assert rule.checks in PAGE
        assert f"**Fix:** {rule.fix}\n" in PAGE
    assert len(RETIRED) == 20
