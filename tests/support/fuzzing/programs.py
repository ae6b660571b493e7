"""Differential fuzzing over seeds: ``PYTHONPATH=tests python -m support.fuzzing.programs --seconds 60``.

Every program runs on the oracle and on the vectorised engine with the chunk sizes for which the language
promises equal results; a disagreement is reduced and printed as a filetest.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from support.features import ALL_FEATURES, features
from support.fuzzing.reproducer import filetest
from support.programs import Case, Order
from support.running import Outcome, Outputs, has_data_race, oracle, run
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.validation.validator import validate
from vyre.testing.random_programs.grid_loops import any_program
from vyre.testing.reduction import reduce_case

ENGINE: Final = VectorKernel
_INDEPENDENT_CHUNKS: Final = (None, 1, 2, 3)


def permitted_chunks(case: Case) -> Sequence[int | None]:
    """Chunk sizes with which the vectorised engine owes the canonical bytes.

    Always one workgroup; any number for an order-independent program, which is known by construction or because
    it has no data race and is not marked as order-sensitive; the engine's own choice for one that is so marked.
    """
    if case.order is Order.INDEPENDENT:
        return _INDEPENDENT_CHUNKS
    if case.order is Order.RACY and has_data_race(case):
        return (1,)
    return (1, None) if validate(case.program).order_sensitive else _INDEPENDENT_CHUNKS


def disagreement(case: Case, chunk: int | None, expected: Outcome | None = None) -> str | None:
    """What differs between the oracle (or ``expected``, its outcome) and the vectorised engine, or None."""
    if expected is None:
        expected = oracle(case)
    found = run(ENGINE, case, chunk)
    if expected == found:
        return None
    return f"chunk {chunk}: " + "; ".join(differences(expected, found))


def differences(expected: Outcome, found: Outcome) -> Iterator[str]:
    """Where two outcomes differ, in words."""
    if not isinstance(expected, Outputs) or not isinstance(found, Outputs):
        yield f"expected {expected}, found {found}"
        return
    for name, right in expected.bytes.items():
        wrong = found.bytes[name]
        if right != wrong:
            at = next((i for i, pair in enumerate(zip(right, wrong, strict=False)) if pair[0] != pair[1]), len(right))
            at -= at % 8
            yield f"`{name}` from byte {at}: expected {right[at : at + 8].hex()}, found {wrong[at : at + 8].hex()}"


@dataclass(slots=True)
class Campaign:
    """A run over consecutive seeds."""

    first_seed: int
    seeds: int = 0
    programs: int = 0
    executions: int = 0
    compared_bytes: int = 0
    seconds: float = 0.0
    python: str = field(default_factory=platform.python_version)
    features: int = 0
    missed_features: list[str] = field(default_factory=lambda: sorted(ALL_FEATURES))
    """The features that no program of the run contains."""
    failures: list[str] = field(default_factory=list)

    @classmethod
    def run(cls, first_seed: int, seconds: float, *, programs: int = sys.maxsize, stop_after: int = 1) -> Campaign:
        """Runs until one of the three limits is reached."""
        campaign = cls(first_seed)
        start = time.monotonic()
        while (
            time.monotonic() - start < seconds and campaign.programs < programs and len(campaign.failures) < stop_after
        ):
            for order in Order:
                case = any_program(first_seed + campaign.seeds, order)
                campaign.missed_features = still_missed(campaign.missed_features, case)
                campaign._try(case)
            campaign.seeds += 1
        campaign.features = len(ALL_FEATURES) - len(campaign.missed_features)
        campaign.seconds = round(time.monotonic() - start, 1)
        return campaign

    def _try(self, case: Case) -> None:
        seed = self.first_seed + self.seeds
        self.programs += 1
        try:
            expected = oracle(case)
        except Exception as error:
            self.failures.append(f"seed {seed}, {case.order}: the oracle raises {error!r}\n{filetest(case)}")
            return
        for chunk in permitted_chunks(case):
            self.executions += 1
            if isinstance(expected, Outputs):
                self.compared_bytes += sum(map(len, expected.bytes.values()))
            symptom = _symptom(case, chunk, expected)
            if symptom is not None:
                self.failures.append(_reproducer(seed, case, chunk, symptom[0]))
                return

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def still_missed(missed: list[str], case: Case) -> list[str]:
    """The features that a case does not have either."""
    if not missed:
        return missed
    found = features(case)
    return [feature for feature in missed if feature not in found]


def _symptom(case: Case, chunk: int | None, expected: Outcome | None = None) -> tuple[str, str] | None:
    """The kind of a failure, which reduction keeps, and its description."""
    try:
        difference = disagreement(case, chunk, expected)
    except Exception as error:
        return type(error).__name__, str(error)
    return None if difference is None else ("disagreement", difference)


def main() -> int:
    parser = argparse.ArgumentParser(description="differential fuzzing of the reference engines")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--failures", type=int, default=1, help="stop after that many")
    parser.add_argument("--programs", type=int, default=sys.maxsize, help="stop after about that many")
    parser.add_argument("--out", type=Path, help="write the record here")
    options = parser.parse_args()
    campaign = Campaign.run(options.seed, options.seconds, programs=options.programs, stop_after=options.failures)
    if options.out is not None:
        campaign.write(options.out)
    for failure in campaign.failures:
        print(failure, end="\n\n")
    print(f"{campaign.programs} programs, {campaign.executions} comparisons, {len(campaign.failures)} failures")
    return int(bool(campaign.failures))


if __name__ == "__main__":
    sys.exit(main())


def _reproducer(seed: int, case: Case, chunk: int | None, kind: str) -> str:
    """What went wrong, and the smallest program found that goes wrong in the same way, as a filetest."""

    def still_wrong(other: Case) -> bool:
        found = _symptom(other, chunk)
        return found is not None and found[0] == kind

    small = reduce_case(case, still_wrong)
    return f"seed {seed}, {case.order}: {_symptom(small, chunk)}\n{filetest(small)}"
