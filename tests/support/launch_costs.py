"""Launch costs of round numbers."""

from __future__ import annotations

from typing import Any, Final

import pytest

from vyre.app.calibration import experiments
from vyre.domain.launch_costs import CostSource, LaunchCosts, Measured, Provenance
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.ports.cost_probe import CostExperiment

SOURCE: Final = CostSource("cuda", "a device", "13.0")
EVERY_MODE: Final = frozenset(ExecutionMode)


def measured(ns: int, error_ns: int = 0, provenance: Provenance = Provenance.MEASURED) -> Measured:
    return Measured(ns, 0, error_ns, 0 if provenance is Provenance.ASSUMED else 9, provenance)


def launch_costs(**ns: int | Measured | None) -> LaunchCosts:
    """What a launch, a graph and a resident kernel cost, with these changes."""
    usual: dict[str, int | Measured | None] = {
        "round_trip": 0,
        "launch": 3_000,
        "launch_gap": 1_000,
        "graph_record": 20_000,
        "graph_record_node": 4_000,
        "graph_update": 500,
        "graph_update_node": 1_000,
        "graph_replay": 2_500,
        "graph_replay_node": 10,
        "graph_gap": 600,
        "persistent_setup": 50_000,
        "persistent_poll": 400,
    }
    given: dict[str, Any] = {
        name: measured(value) if isinstance(value, int) else value for name, value in (usual | ns).items()
    }
    return LaunchCosts(SOURCE, 1_000, **given)


def shorten_calibrations(patch: pytest.MonkeyPatch) -> None:
    """Leaves out the experiments whose kernels stay or wait for others, which an emulated device runs for seconds."""
    long = (CostExperiment.PERSISTENT, CostExperiment.GRID_BARRIERS)
    patch.setattr(experiments, "LINES", tuple(line for line in experiments.LINES if line.experiment not in long))
