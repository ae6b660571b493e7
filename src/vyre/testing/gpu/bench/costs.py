"""Launch costs: measured as a session does, and predictions made with them held against what is observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance, of_samples, to_json
from vyre.policies.execution_prices import ExecutionMode, Workload
from vyre.policies.plan_execution import ExecutionInputs, plan_execution
from vyre.testing.gpu.bench import programs
from vyre.testing.gpu.bench.latency import ELEMENTS, chain
from vyre.testing.gpu.bench.timing import each_call_us, spread
from vyre.testing.gpu.context import Context
from vyre.testing.gpu.findings import Fact, Finding
from vyre.testing.gpu.workbench import Workbench, backend_with, has_driver, session_on
from vyre.testing.outcomes import Outcome, Verdict

NODES: Final = (1, 4, 16, 64)
"""Kernels of a batch."""
MODES: Final = (ExecutionMode.PLAIN, ExecutionMode.GRAPH)


def costs(context: Context) -> Iterator[Finding]:
    """Calibrate, predict batches of each length in each mode, run them, and compare."""
    if not has_driver(context.backend):
        yield Outcome("launch costs", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
        known = session.calibrate(rounds=5 if context.emulated else 51)
    yield Fact("launch_costs", to_json(known.costs))
    expected = Provenance.EMULATED if context.emulated else Provenance.MEASURED
    right = known.provenance is expected
    yield Outcome("provenance", Verdict.PASSED if right else Verdict.FAILED, f"{known.provenance}")
    found: dict[str, Any] = {}
    with Workbench(context.backend) as bench:
        kernel, runs = _batches(bench, known.costs, 5 if context.emulated else 200)
        for nodes, batches in runs.items():
            found[f"{nodes} kernels"] = _compared(known.costs, kernel, nodes, batches)
            yield Fact("predictions_us", dict(found))
    errors = [mode["error"] for cell in found.values() for mode in cell["modes"].values()]
    agreed = sum(cell["planned"] == cell["fastest"] for cell in found.values()) / len(found)
    yield Fact("summary", {"worst_error": max(errors), "wanted_error": 0.15, "agreed": agreed, "wanted_agreed": 0.9})


def _batches(
    bench: Workbench, known: LaunchCosts, calls: int
) -> tuple[Measured, dict[int, dict[ExecutionMode, list[float]]]]:
    """The time of a kernel net of the gap after it, and by number of kernels and mode the microseconds of batches."""
    program, driver = programs.launch_probe(), bench.driver
    values = {"a": np.float32(1).tobytes(), "n": np.uint32(ELEMENTS).tobytes()}
    found: dict[int, dict[ExecutionMode, list[float]]] = {}
    with bench.module(program) as module:
        x, y = bench.upload(np.ones(ELEMENTS, np.float32)), bench.upload(np.zeros(ELEMENTS, np.float32))
        launch = bench.prepare(program, module, (1, 1, 1), (0, 0, x, y), (1, 1, ELEMENTS, ELEMENTS), values)
        times = []
        for nodes in NODES:
            graph = driver.graph_create()
            chain(bench, graph, launch.kernels[0], nodes)
            executable = driver.graph_instantiate(graph)
            driver.graph_upload(executable, bench.stream)
            replay = driver.prepare_graph_launch(executable, bench.stream)
            ways: dict[ExecutionMode, Callable[[], object]] = {
                ExecutionMode.PLAIN: partial(_repeat, launch, nodes),
                ExecutionMode.GRAPH: replay,
            }
            found[nodes] = {mode: each_call_us(partial(_waited, ways[mode], bench), calls) for mode in MODES}
            times += [round(bench.device_ms(replay) * 1e6) // nodes for _ in range(5) if nodes == NODES[-1]]
            driver.graph_exec_destroy(executable)
            driver.graph_destroy(graph)
    gap = 0 if known.graph_gap is None else known.graph_gap.median_ns
    provenance = known.provenance or Provenance.ASSUMED
    return of_samples([max(0, ns - gap) for ns in times], provenance), found


def _compared(
    known: LaunchCosts, kernel: Measured, nodes: int, batches: dict[ExecutionMode, list[float]]
) -> dict[str, Any]:
    workload = Workload(nodes, 1, 1, kernel, recorded=True)
    plan = plan_execution(ExecutionInputs(workload, known, frozenset(MODES)))
    modes: dict[str, Any] = {}
    for mode, samples in batches.items():
        price, observed = plan.price(mode), spread(samples)
        assert price is not None  # every cost of these modes was measured
        predicted = price.batch_ns / 1e3
        error = abs(predicted - observed["median"]) / observed["median"]
        modes[mode.value] = {"predicted": predicted, "observed": observed, "error": error}
    fastest = min(modes, key=lambda name: modes[name]["observed"]["median"])
    return {"modes": modes, "planned": plan.mode.value, "fastest": fastest}


def _repeat(launch: Callable[[], object], times: int) -> None:
    for _ in range(times):
        launch()


def _waited(work: Callable[[], object], bench: Workbench) -> None:
    work()
    bench.synchronize()
