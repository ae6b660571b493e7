"""The judge of decisions against the clock, on planted times, and the grid; nothing here is timed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import clock_jobs
from benchmarks.clock_cells import grid
from benchmarks.clock_judge import NEAR, TRUE_WITHIN, Timed, as_json, from_json, judge, shares, timed
from benchmarks.clock_sequences import WAYS
from benchmarks.clock_turns import take_turns
from benchmarks.decision_clock import kept_rows

from vyre.domain.errors import InvalidField

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "decision-clock.json"


def way(median_ns: int, error_ns: int = 0, predicted_ns: int | None = None) -> Timed:
    return Timed(median_ns, error_ns, predicted_ns)


def test_the_fastest_is_right() -> None:
    found = judge({"plain": way(100), "graph": way(90)}, "graph")
    assert (found.right, found.fastest, found.loss) == (True, "graph", 0)


@pytest.mark.parametrize(("plain_ns", "right"), [(1000, True), (1050, True), (1051, False), (9000, False)])
def test_a_choice_may_be_slower_by_a_twentieth(plain_ns: int, right: bool) -> None:
    assert NEAR == 5
    found = judge({"plain": way(plain_ns), "graph": way(1000)}, "plain")
    assert found.right is right
    assert found.loss == pytest.approx(plain_ns / 1000 - 1)


@pytest.mark.parametrize(("plain_ns", "right"), [(1500, True), (1501, False)])
def test_a_choice_may_be_slower_by_two_standard_errors_of_the_difference(plain_ns: int, right: bool) -> None:
    """The errors are 150 and 200, that of the difference is 250."""
    assert judge({"plain": way(plain_ns, 150), "graph": way(1000, 200)}, "plain").right is right


def test_a_choice_that_was_not_measured_is_refused() -> None:
    with pytest.raises(KeyError):
        judge({"plain": way(1)}, "graph")


@pytest.mark.parametrize(
    ("predicted_ns", "true"), [(850, True), (1150, True), (849, False), (1151, False), (None, False)]
)
def test_a_prediction_is_true_within_fifteen_percent_of_the_median(predicted_ns: int | None, true: bool) -> None:
    assert TRUE_WITHIN == 15
    assert judge({"plain": way(1000, 0, predicted_ns)}, "plain").is_true is true


def test_shares_count_cells_and_predictions() -> None:
    """Two of four choices are right; of the chosen ways one is true, of all eight ways three."""
    right_true = judge({"plain": way(100, 0, 100), "graph": way(200, 0, 500)}, "plain")
    right_off = judge({"plain": way(100, 0, 10), "graph": way(200, 0, 200)}, "plain")
    wrong_off = judge({"plain": way(100, 0, 99), "graph": way(200, 0, 90)}, "graph")
    wrong_unknown = judge({"plain": way(100, 0, 1), "graph": way(200)}, "graph")
    found = shares([right_true, right_off, wrong_off, wrong_unknown])
    assert found == (4, 0.5, 0.25, 3 / 8)
    assert shares([]) == (0, 0, 0, 0)


def test_the_median_of_samples_is_judged() -> None:
    assert timed([10, 12, 11, 13, 1_000_000], 11).median_ns == 12
    with pytest.raises(InvalidField):
        timed([10, 12], 11)


def test_a_row_of_the_record_is_judged_anew() -> None:
    found = judge({"plain": way(100, 3, 101), "graph": way(200, 4)}, "graph")
    row = json.loads(json.dumps(as_json(found)))
    assert from_json(row) == found
    row["right"] = True
    assert not from_json(row).right, "a record that was edited does not decide"


def test_an_interrupted_study_goes_on(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    assert kept_rows(kept) == kept_rows(None) == {}
    row = as_json(judge({"plain": way(100)}, "plain"))
    kept.write_text(json.dumps({"cell": "one"} | row) + "\n" + '{"cell": "cut off', encoding="utf-8")
    assert kept_rows(kept) == {"one": row}


def test_the_grid_has_five_hundred_cells_of_every_kind() -> None:
    cells = grid()
    assert len({cell.name for cell in cells}) == len(cells) >= 500
    for values in (
        {cell.shape.family for cell in cells},
        {cell.shape.kind for cell in cells},
        {cell.shape.size for cell in cells},
        {cell.shape.chain for cell in cells},
        {cell.batch for cell in cells},
        {cell.repeats for cell in cells},
    ):
        assert len(values) > 1


def test_every_way_is_sampled_equally_often_and_what_is_known_of_it_first() -> None:
    log: list[str] = []

    def learn(number: int, way: str) -> None:
        log.append(f"learn {way}")

    def sample(way: str) -> int:
        log.append(way)
        return len(way)

    found = take_turns(("a", "bb"), {"a": 1_000_000, "bb": 10}, learn, sample)
    assert found == {"a": [1] * 11, "bb": [2] * 11}
    assert log[:8] == ["learn a", "a", "learn bb", "bb", "learn bb", "bb", "learn a", "a"], "another begins each turn"
    found = take_turns(("a",), {"a": 1}, learn, sample)
    assert len(found["a"]) == 151, "short work is sampled often"
    assert log.count("learn a") - 11 == 12, "what is known of it is measured throughout, not each time"


@pytest.mark.skipif(not RECORD.exists(), reason="the study was not recorded")
def test_the_record_is_of_this_grid_and_says_what_its_cells_say() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = record["details"]["cells"]
    assert [row["cell"] for row in rows] == [cell.name for cell in grid()]
    judged = [from_json(row) for row in rows]
    assert all(set(one.ways) <= {*WAYS, *clock_jobs.WAYS} for one in judged)
    found = shares(judged)
    values = {row["name"]: row["value"] for row in record["rows"]}
    assert values["right_choices"] == pytest.approx(100 * found.right)
    assert values["true_predictions"] == pytest.approx(100 * found.true)
    assert values["true_predictions_of_all_ways"] == pytest.approx(100 * found.true_of_all)
