"""What ``make bench`` writes beside its records: all samples, and no claim that they do not support."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest
from benchmarks.evidence import claims_of, measurement, write_evidence
from benchmarks.harness import Metric, NotMeasured, Row, Samples, evaluate

from vyre.app.evidence.bundle import read_evidence
from vyre.domain.evidence.records import SpeedClaim

ROUNDS = 9


def row(name: str, metric: Metric, samples: Samples, required: float | None, **others: float | None) -> Row:
    def measure(rounds: int) -> Samples:
        return samples

    return Row(name, metric, "x", required, others.get("aim"), measure, "warm", others.get("scale") or 1.0)


STEADY = Samples((1.0,) * ROUNDS, (2.0,) * ROUNDS)
NOISY = Samples((1.0,) * ROUNDS, (1.0,) * 4 + (2.0,) * 5)
"""The median is twice as fast, but four of nine rounds are not."""


@pytest.mark.parametrize(
    ("found", "factor"),
    [
        (row("ratio", Metric.RATIO, STEADY, 0.8), 1.25),
        (row("ratio", Metric.RATIO, STEADY, 0.8, aim=0.625), 1.6),
        (row("speed", Metric.SPEEDUP, STEADY, 1.5), 1.5),
        (row("scaled", Metric.SPEEDUP, STEADY, 15.0, scale=10.0), 1.5),
        (row("scaled", Metric.RATIO, STEADY, 8.0, scale=10.0), 1.25),
        (row("missed", Metric.SPEEDUP, STEADY, 3.0), None),
        (row("record", Metric.SPEEDUP, STEADY, None), None),
        (row("cost", Metric.COST, Samples((1.0,) * ROUNDS), 2.0), None),
        (row("rate", Metric.RATE, Samples((1.0,) * ROUNDS), 0.5), None),
    ],
)
def test_a_row_claims_the_number_that_it_reaches(found: Row, factor: float | None) -> None:
    claims = list(claims_of(evaluate(found, ROUNDS)))
    assert [claim.factor for claim in claims] == ([] if factor is None else [pytest.approx(factor)])
    assert all(claim == SpeedClaim(found.name, "ours", "theirs", claim.factor) for claim in claims)


def test_the_bundle_holds_all_samples_and_only_supported_claims(tmp_path: Path) -> None:
    def missing(rounds: int) -> Samples:
        raise NotMeasured("nobody is here")

    rows = (
        row("steady", Metric.SPEEDUP, STEADY, 1.5),
        row("noisy", Metric.SPEEDUP, NOISY, 1.5),
        row("alone", Metric.COST, Samples((3.0,) * ROUNDS), 4.0),
        Row("missing", Metric.COST, "s", 1.0, None, missing, "cold"),
    )
    outcomes = [evaluate(each, ROUNDS) for each in rows]
    assert [outcome.verdict for outcome in outcomes] == ["required", "required", "required", "not measured"]
    judged = write_evidence(tmp_path / "suite.evidence.zip", outcomes)
    assert [each.verdict.supported for each in judged] == [True, False]
    evidence = read_evidence(tmp_path / "suite.evidence.zip").evidence
    assert [each.name for each in evidence.measurements] == ["steady", "noisy", "alone"]
    assert [side.samples for side in evidence.measurements[1].sides] == [NOISY.ours, NOISY.theirs]
    assert [claim.measurement for claim in evidence.claims] == ["steady"]


def test_sides_of_two_runs_cannot_be_told_as_one() -> None:
    outcome = evaluate(row("ratio", Metric.RATIO, STEADY, 0.8), ROUNDS)
    assert measurement(outcome).run == measurement(outcome).run
    assert measurement(outcome, "another").run != measurement(outcome).run


RECORDED = sorted((Path(__file__).resolve().parents[2] / "benchmarks" / "results").glob("*.evidence.zip"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_recorded_bundles_are_whole_and_belong_to_their_records(path: Path) -> None:
    """Reading judges every claim again."""
    evidence = read_evidence(path).evidence
    record = json.loads(path.with_name(path.name.replace(".evidence.zip", ".json")).read_text("utf-8"))
    assert record["evidence"] == path.name
    measured = {row["name"]: row for row in record["rows"] if row["verdict"] != "not measured"}
    assert [each.name for each in evidence.measurements] == list(measured)
    for each in evidence.measurements:
        assert median(each.sides[0].samples) == measured[each.name]["ours_median"]
    assert evidence.source.git is not None and evidence.source.git.dirty is False


def test_a_bundle_is_recorded() -> None:
    assert RECORDED
