"""Cases of ``CostProbe``: times of empty work."""

from __future__ import annotations

from typing import Final

from vyre.domain.errors import UnsupportedFeature
from vyre.ports.cost_probe import CostExperiment
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import Skipped, equal, holds, refusal
from vyre.testing.backend_contract.kernels import INCREMENT

COSTS: Final = Group("costs", "cost_probe")
_SIZES: Final = (1, 3, 1, 257)


@COSTS.table({experiment.value: experiment for experiment in CostExperiment})
def an_experiment_takes_time(bench: Bench, experiment: CostExperiment) -> None:
    """An experiment runs at any size, in any order, any number of times, and takes positive time; an experiment that
    the backend does not offer is refused.
    """
    probe = bench.cost_probe
    with probe.measuring() as timed:
        if experiment not in probe.experiments:
            refusal(UnsupportedFeature, lambda: timed(experiment, 1))
            return
        times = [timed(experiment, size) for size in _SIZES]
    holds(all(type(found) is int and found >= 0 for found in times), f"{times} are no times in ns")
    holds(sum(times) > 0, "all of it took no time")


@COSTS.case()
def experiments_change_no_byte(bench: Bench) -> None:
    """Dispatches between and after experiments return the same bytes as before."""
    probe = bench.cost_probe
    if not probe.experiments:
        raise Skipped("experiments")
    some = min(probe.experiments, key=lambda found: found.value)
    equal(bench.words(INCREMENT, words(1, 2)), [2, 3])
    for _ in range(2):
        with probe.measuring() as timed:
            timed(some, 2)
            equal(bench.words(INCREMENT, words(1, 2)), [2, 3])
            timed(some, 2)
    equal(bench.words(INCREMENT, words(1, 2)), [2, 3])
