"""The measure of how many public types are known: what counts, and that a checker that cannot say is a failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import type_completeness
from benchmarks.type_completeness import Unmeasured, completeness, measure


def report(known: int, ambiguous: int, unknown: int, symbols: list[object]) -> dict[str, object]:
    counts = {"withKnownType": known, "withAmbiguousType": ambiguous, "withUnknownType": unknown}
    return {"typeCompleteness": {"exportedSymbolCounts": counts, "symbols": symbols}}


def symbol(name: str, *diagnostics: tuple[str, str], exported: bool = True) -> object:
    listed = [{"severity": severity, "message": message} for severity, message in diagnostics]
    return {"name": name, "isExported": exported, "diagnostics": listed}


def test_ambiguous_and_unknown_types_both_count_against_the_share() -> None:
    found = completeness(report(98, 1, 1, []))
    assert (found.symbols, found.known, found.percent) == (100, 98, 98.0)


def test_only_errors_of_exported_symbols_are_told_by_their_first_line() -> None:
    symbols = [
        symbol("vyre.a", ("error", "Type is missing\n  Inferred type is int"), ("warning", "No docstring")),
        symbol("vyre.b"),
        symbol("numpy.c", ("error", "elsewhere"), exported=False),
    ]
    assert completeness(report(2, 0, 1, symbols)).problems == ("vyre.a: Type is missing",)


@pytest.mark.parametrize("nothing", [report(0, 0, 0, []), {}, {"typeCompleteness": {}}])
def test_a_report_about_nothing_is_no_measurement(nothing: dict[str, object]) -> None:
    with pytest.raises(Unmeasured, match=r"no public symbol.*Fix:"):
        completeness(nothing)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no node here >&2; exit 1", "ended with 1 and without a report; it said: no node here"),
        ("echo {}; exit 3", "ended with 3 and without a report; it said: {}"),
        ("echo []", "ended with 0 and without a report"),
        ("echo {}", "no public symbol"),
    ],
)
def test_a_checker_that_does_not_start_or_says_nothing_is_a_failure(tmp_path: Path, script: str, said: str) -> None:
    tool = tmp_path / "checker"
    tool.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    tool.chmod(0o755)
    with pytest.raises(Unmeasured) as caught:
        measure("vyre", str(tool))
    assert said in str(caught.value)


def test_a_checker_that_is_not_installed_is_a_failure_with_a_fix() -> None:
    with pytest.raises(Unmeasured, match=r"is not installed. Fix: pip install --group lint"):
        measure("vyre", "no-such-type-checker")


@pytest.mark.parametrize(("known", "code"), [(989, 1), (990, 0), (1000, 0)])
def test_the_exit_code_is_the_verdict(
    known: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(type_completeness, "measure", lambda package: completeness(report(known, 1000 - known, 0, [])))
    assert type_completeness.main() == code
    assert f"{known} of 1000" in capsys.readouterr().out


def test_a_failure_to_measure_is_an_exit_code_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(package: str) -> type_completeness.Completeness:
        raise Unmeasured("it did not start. Fix: start it.")

    monkeypatch.setattr(type_completeness, "measure", fails)
    assert type_completeness.main() == 1
    assert "was not measured: it did not start" in capsys.readouterr().err
