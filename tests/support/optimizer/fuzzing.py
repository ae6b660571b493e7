"""Differential fuzzing of the optimizer on the reference:
``PYTHONPATH=src:tests python -m support.optimizer.fuzzing --programs 100000 --out RECORD``.

Each random program runs as it is written and after passes in an order that its seed chooses: the usual order, one pass
alone, or several in a random order.  Both must give the same bytes or the same error, traps included; the optimized
program must be valid and no more sensitive to the order of lanes.  Workers take batches of seeds side by side.  A
record that exists is continued; its failures are tried again first.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from support.fuzzing.programs import differences
from support.fuzzing.reproducer import filetest
from support.optimizer.optimized_programs import changed_case, random_case
from support.programs import Case
from support.running import Failure, Outcome, Outputs, run
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.domain.optimize.passes import run_passes
from vyre.domain.validation.known import order_sensitive
from vyre.domain.validation.validator import validate
from vyre.testing.reduction import reduce_case

BATCH: Final = 50
"""Programs that a worker runs before it reports."""
REDUCE_S: Final = 60.0
_MOST_PASSES: Final = 8
_ENGINE: Final = VectorKernel
_STATE: Final = " ".join(sorted(map(str, PASSES.values())))
"""The passes with their versions."""


class Findings(NamedTuple):
    """What a batch found: counts, and each program that failed with the reason."""

    counts: dict[str, int]
    failures: dict[int, str]


def order_of(seed: int) -> tuple[str, ...]:
    """Returns the passes for the program of a seed."""
    chance = random.Random(f"passes of {seed}")
    kind = chance.random()
    if kind < 0.4:
        return DEFAULT_ORDER
    if kind < 0.6:
        return (chance.choice(list(PASSES)),)
    return tuple(chance.choices(list(PASSES), k=chance.randint(2, _MOST_PASSES)))


def wrong(case: Case, names: Sequence[str], expected: Outcome) -> str:
    """Returns what is wrong with the optimized program of a case, which is to give ``expected``; empty for nothing."""
    try:
        made = run_passes(case.program, [PASSES[name] for name in names]).program
        report = validate(made)
        if not report.ok:
            return f"the optimized program is invalid: {report.errors[0]}"
        if made.abi_buffers != case.program.abi_buffers:
            return "the interface has changed"
        if order_sensitive(made) and not order_sensitive(case.program):
            return "the optimized program depends on the order of lanes"
        found = run(_ENGINE, changed_case(case, made))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if found == expected:
        return ""
    return f"difference: {'; '.join(differences(expected, found))}"


def try_batch(seeds: Sequence[int]) -> Findings:
    """Runs the programs of some seeds before and after the optimizer."""
    counts: Counter[str] = Counter()
    failures: dict[int, str] = {}
    for seed in seeds:
        case = _unbounded(random_case(seed))
        expected = run(_ENGINE, case)
        names = order_of(seed)
        problem = wrong(case, names, expected)
        if problem:
            failures[seed] = problem
            continue
        counts["programs"] += 1
        counts["passes"] += len(names)
        counts["nodes"] += node_facts(case.program).nodes
        if isinstance(expected, Outputs):
            counts["compared_bytes"] += sum(map(len, expected.bytes.values()))
        else:
            counts[f"programs with {expected.kind.__name__}"] += 1
        counts.update(f"pass {name}" for name in set(names))
    return Findings(dict(counts), failures)


def _unbounded(case: Case) -> Case:
    """Returns a case without a step budget, for which programs run as they are written."""
    return replace(case, config=replace(case.config, step_budget=None))


def reproducer(seed: int, problem: str) -> str:
    """Returns what went wrong, and the smallest program found that goes wrong in the same way, as a filetest."""
    names, kind = order_of(seed), problem.partition(":")[0]

    def still_wrong(other: Case) -> bool:
        expected = run(_ENGINE, other)
        return not isinstance(expected, Failure) and wrong(other, names, expected).partition(":")[0] == kind

    case = _unbounded(random_case(seed))
    head = f"seed {seed}, passes {' '.join(names)}: {problem}"
    small = reduce_case(case, still_wrong, REDUCE_S) if still_wrong(case) else case
    return f"{head}\n{filetest(small)}"


@dataclass(slots=True)
class OptimizerCampaign:
    """A run over consecutive seeds, which can be continued from its record."""

    next_seed: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    python: str = field(default_factory=platform.python_version)
    by_passes: dict[str, int] = field(default_factory=dict)
    """Programs by the passes as they were, each with its version."""
    failed_seeds: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @classmethod
    def resume(cls, path: Path) -> OptimizerCampaign:
        """Returns the campaign of a record."""
        found = json.loads(path.read_text(encoding="utf-8"))
        passes = found.pop("passes", None)  # of records that knew one state of the passes only
        if passes is not None:
            found["by_passes"] = {" ".join(passes): found["counts"].get("programs", 0)}
        return cls(**found)

    @property
    def programs(self) -> int:
        """Returns the number of programs that gave the same before and after."""
        return self.counts.get("programs", 0)

    def run(self, programs: int, *, workers: int = 1, seconds: float = 1e9, record: Path | None = None) -> None:
        """Goes on until so many programs agree, so much time has passed or one fails; writes the record as it goes."""
        started, before = time.monotonic(), self.seconds
        retried, self.failed_seeds, self.failures = self.failed_seeds, [], []
        batches, problems = self._batches(programs, retried), dict[int, str]()
        context = get_context("fork")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            waiting: set[Future[Findings]] = set()
            while True:
                in_time = time.monotonic() - started < seconds and not problems
                while in_time and len(waiting) < 2 * workers and (batch := next(batches, None)) is not None:
                    waiting.add(pool.submit(try_batch, batch))
                if not waiting:
                    break
                ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for findings in (future.result() for future in ended):
                    self.counts = dict(sorted((Counter(self.counts) + Counter(findings.counts)).items()))
                    self.by_passes[_STATE] = self.by_passes.get(_STATE, 0) + findings.counts.get("programs", 0)
                    problems |= findings.failures
                self.failed_seeds = sorted(problems)
                self.seconds = round(before + time.monotonic() - started, 1)
                if record is not None:
                    self.write(record)
        self.failures = [reproducer(seed, problems[seed]) for seed in self.failed_seeds]
        if record is not None:
            self.write(record)

    def _batches(self, programs: int, retried: Sequence[int]) -> Iterator[Sequence[int]]:
        if retried:
            yield retried
        left = programs - self.programs - len(retried)
        while left > 0:
            seeds = range(self.next_seed, self.next_seed + min(BATCH, left))
            self.next_seed = seeds.stop
            left -= len(seeds)
            yield seeds

    def write(self, path: Path) -> None:
        """Writes the record, all at once."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".part")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        draft.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description="differential fuzzing of the optimizer on the reference")
    parser.add_argument("--programs", type=int, default=100_000, help="programs in all, those of the record included")
    parser.add_argument("--seed", type=int, help="the first seed; not for a record that exists (default: 0)")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, help="the record, which is continued if it exists")
    options = parser.parse_args()
    exists = options.out is not None and options.out.exists()
    if exists and options.seed is not None:
        parser.error("--seed: the record goes on at its own seed. Fix: leave --seed out, or write another record.")
    campaign = OptimizerCampaign.resume(options.out) if exists else OptimizerCampaign(options.seed or 0)
    campaign.run(options.programs, workers=options.workers, seconds=options.seconds, record=options.out)
    print(f"{campaign.programs} programs in {campaign.seconds} s, {len(campaign.failures)} failures")
    print("\n\n".join(campaign.failures))
    return int(bool(campaign.failures))


if __name__ == "__main__":
    sys.exit(main())
