"""Differential fuzzing of the CUDA backend on the emulated device:
``PYTHONPATH=tests python -m support.machine.fuzzing --programs 20000``.

Random typed programs go through emission, the driver seam and the PTX interpreter, and must give the bytes of the
vectorised reference: order-independent ones in every schedule, those whose result depends on the order of atomics in
lockstep.  Programs with data races are not generated: the machine reports a race where the reference has an answer.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from support.features import ALL_FEATURES
from support.fuzzing.programs import differences, still_missed
from support.fuzzing.reproducer import filetest
from support.programs import Case, Order
from support.running import Failure, Outcome, Outputs, run
from vyre.adapters.cuda.machine.options import RunOptions, Schedule
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.dispatch import OutputArena
from vyre.domain.errors import StepBudgetExceeded, TrapError
from vyre.ports.backend import Backend
from vyre.ports.requests import DispatchRequest
from vyre.testing import cuda_machine
from vyre.testing.random_programs.grid_loops import any_program
from vyre.testing.reduction import reduce_case

ENGINE: Final = VectorKernel
SCHEDULES: Final[dict[Order, tuple[Schedule, ...]]] = {
    Order.INDEPENDENT: ("lockstep", "reverse", "shuffled"),
    Order.ATOMIC: ("lockstep",),
}
STEPS: Final = 100_000
"""Loop steps of a lane that no generated program takes."""
FRESH_AFTER: Final = 200
"""Programs after which the machines are replaced, so that what they keep stays small."""


class Machines:
    """One open backend for each schedule."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._backends: dict[Schedule, Backend] = {}

    def run(self, schedule: Schedule, case: Case) -> Outcome:
        """The outcome of a case; other exceptions pass through."""
        return run_on(self._backend(schedule), case)

    def close(self) -> None:
        for backend in self._backends.values():
            backend.lifecycle.close()
        self._backends.clear()

    def _backend(self, schedule: Schedule) -> Backend:
        found = self._backends.get(schedule)
        if found is None or found.lifecycle.device_lost():
            machine = cuda_machine(kernels=RunOptions(schedule=schedule, seed=self._seed), seed=self._seed)
            found = self._backends[schedule] = machine.backend
            found.lifecycle.prepare()
        return found


def run_on(backend: Backend, case: Case) -> Outcome:
    """A case through the backend port."""
    buffers = case.program.abi_buffers
    inputs = tuple(memoryview(case.inputs[b.name]) for b in buffers if b.takes_input)
    arena = OutputArena()
    try:
        backend.executor.execute(DispatchRequest(case.program, inputs, case.config), arena)
    except TrapError as error:
        return Failure(TrapError, (error.tag, error.address, error.global_id))
    return Outputs(dict(zip((b.name for b in buffers if b.is_returned), arena.to_bytes(), strict=True)))


def machine_case(seed: int, order: Order, work: int = 40_000) -> Case:
    """The case of a seed, without what a GPU does not count; ``work`` as for ``generate``."""
    return _uncounted(any_program(seed, order, work=work))


def _uncounted(case: Case) -> Case:
    return replace(case, config=replace(case.config, step_budget=None, chunk_workgroups=None))


def reference(case: Case) -> Outcome:
    """What the vectorised engine gives one workgroup at a time; a reduced program may have become endless."""
    return run(ENGINE, replace(case, config=replace(case.config, step_budget=STEPS)), 1)


class Symptom(NamedTuple):
    """``kind`` is what reduction keeps: ``difference``, or the class of an exception and its last clause."""

    kind: str
    text: str


def symptom(machines: Machines, schedule: Schedule, case: Case, expected: Outcome | None = None) -> Symptom | None:
    """What differs between the reference and the machine, or None; an exception is a symptom too."""
    case = _uncounted(case)
    try:
        wanted = reference(case) if expected is None else expected
        if isinstance(wanted, Failure) and wanted.kind is StepBudgetExceeded:
            return None
        found = machines.run(schedule, case)
    except Exception as error:
        fault = re.search(r"\): ([a-z ]+) in ", str(error))
        return Symptom(f"{type(error).__name__} {fault[1] if fault else ''}", str(error))
    if wanted == found:
        return None
    return Symptom("difference", f"{schedule}: {'; '.join(differences(wanted, found))}")


@dataclass(slots=True)
class MachineCampaign:
    """A run over consecutive seeds."""

    first_seed: int
    programs: int = 0
    executions: int = 0
    compared_bytes: int = 0
    traps: int = 0
    seconds: float = 0.0
    python: str = field(default_factory=platform.python_version)
    features: int = 0
    missed_features: list[str] = field(default_factory=lambda: sorted(ALL_FEATURES))
    """The features that no program of the run contains."""
    failures: list[str] = field(default_factory=list)

    @classmethod
    def run(cls, first_seed: int, programs: int, *, stop_after: int = 1, seconds: float = 1e9) -> MachineCampaign:
        """``programs`` random programs at most, two thirds of them order-independent."""
        campaign = cls(first_seed)
        start = time.monotonic()
        machines = Machines(first_seed)
        seed = first_seed
        while campaign.programs < programs and time.monotonic() - start < seconds:
            for order in (Order.INDEPENDENT, Order.INDEPENDENT, Order.ATOMIC):
                campaign._try(machines, seed, order)
                seed += 1
                if len(campaign.failures) >= stop_after:
                    break
            else:
                if campaign.programs % FRESH_AFTER < len(SCHEDULES[Order.INDEPENDENT]):
                    machines.close()
                continue
            break
        machines.close()
        campaign.features = len(ALL_FEATURES) - len(campaign.missed_features)
        campaign.seconds = round(time.monotonic() - start, 1)
        return campaign

    def _try(self, machines: Machines, seed: int, order: Order) -> None:
        case = machine_case(seed, order)
        self.programs += 1
        self.missed_features = still_missed(self.missed_features, case)
        expected = reference(case)
        self.traps += isinstance(expected, Failure)
        for schedule in SCHEDULES[order]:
            self.executions += 1
            if isinstance(expected, Outputs):
                self.compared_bytes += sum(map(len, expected.bytes.values()))
            found = symptom(machines, schedule, case, expected)
            if found is not None:
                reproducer = _reproducer(machines, schedule, case, found.kind)
                self.failures.append(f"seed {seed}, {order}: {found.text}\n{reproducer}")
                return

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def _reproducer(machines: Machines, schedule: Schedule, case: Case, kind: str) -> str:
    """The smallest program found that goes wrong in the same way, as a filetest."""

    def still_wrong(other: Case) -> bool:
        found = symptom(machines, schedule, other)
        return found is not None and found.kind == kind

    small = reduce_case(case, still_wrong)
    return f"{symptom(machines, schedule, small)}\n{filetest(_uncounted(small))}"


def main() -> int:
    parser = argparse.ArgumentParser(description="differential fuzzing of the CUDA backend on the emulated device")
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--failures", type=int, default=1, help="stop after that many")
    parser.add_argument("--out", type=Path, help="write the record here")
    options = parser.parse_args()
    campaign = MachineCampaign.run(options.seed, options.programs, stop_after=options.failures, seconds=options.seconds)
    for failure in campaign.failures:
        print(failure, end="\n\n")
    print(f"{campaign.programs} programs, {campaign.executions} comparisons, {len(campaign.failures)} failures")
    if options.out is not None:
        campaign.write(options.out)
    return int(bool(campaign.failures))


if __name__ == "__main__":
    sys.exit(main())
