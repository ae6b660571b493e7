"""Differential fuzzing of the code of the CPU emitter:
``PYTHONPATH=src:tests python -m support.cpu.fuzzing --programs 20000 --out benchmarks/results/cpu-fuzzing.json``.

Random programs are compiled in several variants and run in several ways, and must give the bytes of the oracle.  Every
buffer lies between pages without access.  Programs with data races may give any bytes, but must touch nothing else.
The programs of a batch share modules and run in a fork of the campaign, so that a crash of LLVM or of the code is a
failure of its program and not of the campaign.  A record that exists is continued; its failures are tried again first.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from support.children import Died, Notes, in_fork
from support.cpu.kernels import (
    Code,
    Runner,
    Variant,
    Way,
    compiled,
    emitted,
    joins,
    launch_for,
    merged_copies,
)
from support.cpu.pool import entries
from support.features import ALL_FEATURES
from support.fuzzing.programs import differences, still_missed
from support.fuzzing.reproducer import filetest
from support.machine import fuzzing as machine_fuzzing
from support.programs import Case, Order, generate
from support.running import Failure, Outcome, Outputs, has_data_race, oracle
from vyre.adapters.cpu.llvm.options import LANES
from vyre.adapters.cpu.native import compilation
from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.native.features import host
from vyre.domain.errors import StepBudgetExceeded, UnsupportedFeature
from vyre.domain.validation.known import order_sensitive
from vyre.testing.reduction import reduce_case

BATCH: Final = 12
"""Programs that share modules and a fork."""
VARIANTS: Final = 2
"""Variants of a program."""
BATCH_S: Final = 600.0
PROGRAM_S: Final = 120.0
"""How long a fork may take for a batch and for one program."""
REDUCE_S: Final = 120.0
ORDERS: Final = (*(Order.INDEPENDENT, Order.ATOMIC) * 3, Order.INDEPENDENT, Order.RACY)
"""The kinds of programs, by seed."""
_REFUSED: Final = re.compile(r"\d+")
_THREADS: Final = (1, 2, 8)
_GRAINS: Final = (1, 2, 3, 1000)


class Plan(NamedTuple):
    """A variant of a program and the ways to run it."""

    variant: Variant
    ways: tuple[Way, ...]


class Symptom(NamedTuple):
    """A failure of a variant that was run in a way; ``kind`` is what reduction keeps."""

    kind: str
    text: str
    variant: Variant
    way: Way


class Findings(NamedTuple):
    """The results of the programs of a batch."""

    symptoms: list[tuple[int, Symptom]]
    """With the seed of the program."""
    counts: Counter[str]
    missed_features: list[str]


def case_of(seed: int) -> Case:
    """Returns the case of a seed."""
    return generate(seed, order=ORDERS[seed % len(ORDERS)], traps=True)


def _effort(chance: float) -> Effort:
    return Effort.FULL if chance < 0.2 else Effort.QUICK if chance < 0.5 else Effort.LIGHT


def plans(seed: int, case: Case) -> Iterator[Plan]:
    """Yields the variants of a case that are tried, which the seed chooses among those that the program permits."""
    chance = random.Random(f"variants of {seed}")
    launch = launch_for(case.program, case.inputs, case.config)
    can_join, in_order = joins(case.program, launch), order_sensitive(case.program)
    copies = merged_copies(case.program)
    for lanes in chance.sample(LANES, VARIANTS):
        variant = Variant(
            lanes,
            _effort(chance.random()),
            counting=chance.random() < (0.25 if case.config.step_budget is None else 0.8),
            exclusive=chance.random() < 0.5,
            joined=can_join and chance.random() < 0.6,
            wide=chance.random() < 0.2,
            narrow=chance.random() < 0.5,
            slow_gathers=chance.random() < 0.5,
        )
        ways = [Way(chance.choice(_THREADS), chance.choice(_GRAINS)) for _ in range(2)]
        if in_order or (variant.exclusive and copies is None):
            ways = [Way(1, way.grain) for way in ways]
        yield Plan(variant, (Way(), *ways))


def wanted(case: Case) -> Outcome | None:
    """Returns what the canonical schedule gives; None if a data race permits any bytes."""
    return None if case.order is Order.RACY and has_data_race(case) else oracle(case)


def symptom(runner: Runner, code: Code, case: Case, way: Way, expected: Outcome | None) -> Symptom | None:
    """Returns what is wrong with one run, or None."""
    try:
        found = runner.run(code, case.program, case.inputs, case.config, way)
    except Exception as error:
        return Symptom(type(error).__name__, str(error), code.variant, way)
    if expected is None or expected == found:
        return None
    return Symptom("difference", "; ".join(differences(expected, found)), code.variant, way)


def _is_comparable(expected: Outcome | None, variant: Variant) -> bool:
    """Tells whether code of a variant ends: not where only the step budget ends a loop that it does not count."""
    over = isinstance(expected, Failure) and expected.kind is StepBudgetExceeded
    return variant.counting or not over


def try_batch(seeds: Sequence[int], missed: list[str], notes: Notes) -> Findings:
    """Compiles and runs the programs of some seeds."""
    counts: Counter[str] = Counter()
    symptoms: list[tuple[int, Symptom]] = []
    tasks = []
    for seed in seeds:
        notes.note(f"preparing seed {seed}")
        case = case_of(seed)
        missed = still_missed(missed, case)
        expected = wanted(case)
        counts["programs"] += 1
        counts[_kind(expected)] += 1
        launch = launch_for(case.program, case.inputs, case.config)
        for plan in plans(seed, case):
            if _is_comparable(expected, plan.variant):
                notes.note(f"emitting seed {seed}, {plan.variant.text}")
                try:
                    text = emitted(case.program, case.config, launch.workgroup, plan.variant)
                except UnsupportedFeature as error:
                    counts[f"refused variants: {_REFUSED.sub('N', error.message)}"] += 1
                    continue
                tasks.append((seed, case, expected, plan, text))
    notes.note(f"compiling {', '.join(f'seed {seed}: {plan.variant.text}' for seed, _, _, plan, _ in tasks)}")
    codes = compiled([(text, plan.variant) for _, _, _, plan, text in tasks])
    runner = Runner()
    for code, (seed, case, expected, plan, _) in zip(codes, tasks, strict=True):
        counts["variants"] += 1
        counts.update(f"variant {word}" for word in plan.variant.text.split())
        for way in plan.ways:
            notes.note(f"running seed {seed}, {plan.variant.text}, {way.text}")
            counts["executions"] += 1
            counts[f"way {way.text}"] += 1
            if isinstance(expected, Outputs):
                counts["compared_bytes"] += sum(map(len, expected.bytes.values()))
            found = symptom(runner, code, case, way, expected)
            if found is not None:
                symptoms.append((seed, found))
                break
    notes.note("running on the emulated device")
    _try_machine(seeds[0], counts, symptoms)
    return Findings(symptoms, counts, missed)


def _kind(expected: Outcome | None) -> str:
    if expected is None:
        return "racy programs"
    return "programs with outputs" if isinstance(expected, Outputs) else f"programs with {expected.kind.__name__}"


def _try_machine(seed: int, counts: Counter[str], symptoms: list[tuple[int, Symptom]]) -> None:
    """Compares one program of the batch on the emulated CUDA device too."""
    case = case_of(seed)
    if case.order is not Order.INDEPENDENT or case.config.step_budget is not None:
        return
    machines = machine_fuzzing.Machines(seed)
    found = machine_fuzzing.symptom(machines, "lockstep", case, oracle(case))
    machines.close()
    counts["programs on the emulated device"] += 1
    if found is not None:
        symptoms.append((seed, Symptom(f"emulated device: {found.kind}", found.text, Variant(), Way())))


def symptom_alone(case: Case, variant: Variant, way: Way) -> Symptom | None:
    """Returns what is wrong with one run in a fork of its own, or None."""

    def attempt(notes: Notes) -> Symptom | None:
        expected = wanted(case)
        launch = launch_for(case.program, case.inputs, case.config)
        if not _is_comparable(expected, variant) or not _permits(case, variant, way):
            return None
        text = emitted(case.program, case.config, launch.workgroup, variant)
        (code,) = compiled([(text, variant)])
        runner = Runner()
        return symptom(runner, code, case, way, expected) or symptom(runner, code, case, way, expected)

    try:
        return in_fork(attempt, PROGRAM_S)
    except Exception as error:
        kind = error.kind if isinstance(error, Died) else type(error).__name__
        return Symptom(kind, str(error), variant, way)


def _permits(case: Case, variant: Variant, way: Way) -> bool:
    """Tells whether a reduced program still permits a variant and a way."""
    launch = launch_for(case.program, case.inputs, case.config)
    if variant.joined and not joins(case.program, launch):
        return False
    if way.threads <= 1:
        return True
    return not order_sensitive(case.program) and (not variant.exclusive or merged_copies(case.program) is not None)


def reproducer(seed: int, found: Symptom) -> str:
    """Returns what went wrong, and the smallest program found that goes wrong in the same way, as a filetest."""

    def still_wrong(other: Case) -> bool:
        again = symptom_alone(other, found.variant, found.way)
        return again is not None and again.kind == found.kind

    case = case_of(seed)
    head = f"seed {seed}, {case.order}, {found.variant.text}, {found.way.text}: {found.kind}: {found.text}"
    if not still_wrong(case):
        return f"{head}\nIt does not go wrong alone.\n{filetest(case)}"
    small = reduce_case(case, still_wrong, REDUCE_S)
    return f"{head}\nreduced: {symptom_alone(small, found.variant, found.way)}\n{filetest(small)}"


@dataclass(slots=True)
class CpuCampaign:
    """A run over consecutive seeds, which can be continued from its record."""

    first_seed: int
    next_seed: int
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    python: str = field(default_factory=platform.python_version)
    compiler: str | None = field(default_factory=compilation.llvm_version)
    processor: str = field(default_factory=lambda: host().text)
    features: int = 0
    missed_features: list[str] = field(default_factory=lambda: sorted(ALL_FEATURES))
    """The features that no program of the run contains."""
    failed_seeds: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, first_seed: int) -> CpuCampaign:
        """Returns a campaign that has run nothing yet."""
        return cls(first_seed, first_seed)

    @classmethod
    def resume(cls, path: Path) -> CpuCampaign:
        """Returns the campaign of a record."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @property
    def programs(self) -> int:
        """Returns the number of programs so far."""
        return self.counts.get("programs", 0)

    def run(
        self,
        programs: int,
        *,
        stop_after: int = 1,
        seconds: float = 1e9,
        record: Path | None = None,
        batch: int = BATCH,
    ) -> None:
        """Goes on until so many programs have been run in all; writes the record after every batch."""
        compilation.prepare()
        entries()
        start, before = time.monotonic(), self.seconds
        for seed in self._retried():
            self._try([seed])
        while self.programs < programs and len(self.failures) < stop_after and time.monotonic() - start < seconds:
            seeds = range(self.next_seed, self.next_seed + min(batch, programs - self.programs))
            self._try(seeds)
            self.next_seed = seeds.stop
            self.features = len(ALL_FEATURES) - len(self.missed_features)
            self.seconds = round(before + time.monotonic() - start, 1)
            if record is not None:
                self.write(record)
        if record is not None:
            self.write(record)

    def _retried(self) -> list[int]:
        """Returns the programs that failed before, which count as not run."""
        seeds, self.failed_seeds, self.failures = sorted(set(self.failed_seeds)), [], []
        return seeds

    def _try(self, seeds: Sequence[int]) -> None:
        missed = self.missed_features
        limit = BATCH_S if len(seeds) > 1 else PROGRAM_S
        try:
            findings = in_fork(lambda notes: try_batch(seeds, missed, notes), limit)
        except Exception as error:
            if len(seeds) > 1:
                for seed in seeds:
                    self._try([seed])
                return
            self._note_crash(seeds[0], error)
            return
        self.missed_features = findings.missed_features
        counts = Counter(self.counts)
        counts.update(findings.counts)
        failed = {seed for seed, _ in findings.symptoms}
        counts["programs"] -= len(failed)
        self.counts = dict(sorted(counts.items()))
        for seed in sorted(failed):
            found = next(s for number, s in findings.symptoms if number == seed)
            self.failed_seeds.append(seed)
            self.failures.append(reproducer(seed, found))

    def _note_crash(self, seed: int, error: Exception) -> None:
        """Finds the variant and the way in which a program ends its fork."""
        self.failed_seeds.append(seed)
        case = case_of(seed)
        for plan in plans(seed, case):
            for way in plan.ways:
                found = symptom_alone(case, plan.variant, way)
                if found is not None:
                    self.failures.append(reproducer(seed, found))
                    return
        self.failures.append(f"seed {seed}: {error}; no variant alone does that\n{filetest(case)}")

    def write(self, path: Path) -> None:
        """Writes the record, all at once."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".part")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        draft.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description="differential fuzzing of the code of the CPU emitter")
    parser.add_argument("--programs", type=int, default=20_000, help="in all, with those of the record")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of a new record")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--failures", type=int, default=1, help="stop after that many")
    parser.add_argument("--out", type=Path, help="the record, which is continued if it exists")
    options = parser.parse_args()
    exists = options.out is not None and options.out.exists()
    campaign = CpuCampaign.resume(options.out) if exists else CpuCampaign.begin(options.seed)
    campaign.run(options.programs, stop_after=options.failures, seconds=options.seconds, record=options.out)
    for failure in campaign.failures:
        print(failure, end="\n\n")
    done = campaign.counts.get("executions", 0)
    print(f"{campaign.programs} programs, {done} comparisons, {len(campaign.failures)} failures")
    return int(bool(campaign.failures))


if __name__ == "__main__":
    sys.exit(main())
