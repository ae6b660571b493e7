"""``make soak SECONDS=n``: its time is shared, its cases are counted, and no failure is lost."""

from __future__ import annotations

import random
from collections.abc import Sequence

from support.fuzzing.timed_soak import KINDS, Kind, run_process, soak


class _Clock:
    """A clock that each run of a campaign moves on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[float] = []

    def __call__(self) -> float:
        return self.now

    def run(self, arguments: Sequence[str], seconds: float) -> tuple[int, str]:
        self.asked.append(seconds)
        self.now += 3.0
        return 0, "12 programs, 30 comparisons, 0 failures\n"


def test_a_campaign_that_counts_is_repeated_until_its_time_is_over() -> None:
    clock = _Clock()
    done = soak(Kind("k", lambda seed, seconds: (), 50), 10.0, random.Random(1), clock.run, clock)
    assert clock.asked == [10.0, 7.0, 4.0, 1.0] and done.cases == 200 and len(set(done.seeds)) == 4


def test_a_campaign_that_ends_by_time_runs_once_and_says_its_count() -> None:
    clock = _Clock()
    done = soak(KINDS[0], 10.0, random.Random(1), clock.run, clock)
    assert done.cases == 12 and len(done.seeds) == 1 and not done.failures


def test_a_failing_run_ends_its_campaign_and_is_told_with_its_seed() -> None:
    done = soak(Kind("k", lambda seed, seconds: (), 5), 1e9, random.Random(1), lambda *given: (1, "wrong"))
    assert done.failures == [f"seed {done.seeds[0]}, exit code 1:\nwrong"]


def test_every_campaign_takes_its_arguments() -> None:
    for kind in KINDS:
        arguments = kind.arguments(5, 1.0)
        code, text = run_process([*arguments, "--help"], 60.0)
        assert code == 0 and all(each in text for each in arguments if each.startswith("--")), text


def test_a_run_of_a_campaign_begins_at_its_seed_and_says_how_many_programs_it_tried() -> None:
    kind = next(kind for kind in KINDS if kind.name == "optimizer")

    def briefly(arguments: Sequence[str], seconds: float) -> tuple[int, str]:
        return run_process([*arguments, "--programs", "4", "--workers", "1"], seconds)

    done = soak(kind, 60.0, random.Random(1), briefly)
    assert done.cases == 4 and not done.failures
