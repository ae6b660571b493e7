"""Latency: dispatch on resident memory beside the same launch and wait through bare bindings, dispatch from host
memory, and graph replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from gpu_runs.bench import programs, rivals
from gpu_runs.bench.timing import batches_us, each_call_us, spread
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Workbench, backend_with, has_driver, session_on
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS
from vyre.adapters.cuda.runtime.launch import BoundKernel
from vyre.adapters.cuda.seam import Graph, GraphNode
from vyre.app.pipeline import Argument
from vyre.ports.requests import ResidentStep, Upload
from vyre.testing.outcomes import Outcome, Verdict

ELEMENTS: Final = programs.WORKGROUP
GRAPH_NODES: Final = (1, 8, 64, 100)
_HOST_SIZES: Final = {"1 KiB": 1 << 10, "64 KiB": 1 << 16, "1 MiB": 1 << 20}


def resident(context: Context) -> Iterator[Finding]:
    """One launch and the wait for it, ours and bare in turn in one process, on kernels that do the same."""
    if not has_driver(context.backend):
        yield Outcome("resident dispatch", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    blocks, calls = (2, 10) if context.emulated else (40, 100)
    backend = backend_with(context.backend, DEFAULT_OPTIONS)
    backend.lifecycle.prepare()
    memory, binder = backend.require_memory(), backend.resident_binder
    assert binder is not None
    x, y = (memory.allocate(4 * ELEMENTS, label=label) for label in "xy")
    memory.upload([Upload(x, _bytes(np.ones(ELEMENTS, np.float32)))])
    a, n = _bytes(np.float32(1)), _bytes(np.uint32(ELEMENTS))
    prepared = binder.bind(ResidentStep(programs.launch_probe(), (a, n, x, y)))
    sides: dict[str, Callable[[], object]] = {"prepared resident dispatch": prepared}
    if not context.emulated:
        sides |= rivals.bindings(ELEMENTS).waited  # two ways to wait; the better one counts
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for block in range(blocks):
        for name, side in sides.items() if block % 2 == 0 else reversed(sides.items()):
            side()
            samples[name] += each_call_us(side, calls)
    found = {name: spread(values) for name, values in samples.items()}
    yield Fact("resident_us", found)
    if not context.emulated:
        bare = min(stats["median"] for name, stats in found.items() if name.startswith("bare"))
        mine = found["prepared resident dispatch"]["median"]
        yield Fact("summary", {"p50_us": mine, "above_bare_us": mine - bare, "wanted_above_us": 1.5, "wanted_us": 8.7})
    prepared.close()
    x.close()
    y.close()
    with session_on(backend) as session:
        program = programs.launch_probe()
        with (
            session.resident(np.ones(ELEMENTS, np.float32)) as rx,
            session.resident(np.zeros(ELEMENTS, np.float32)) as ry,
        ):
            arguments: dict[str, Argument] = {"a": 1.0, "n": ELEMENTS, "x": rx, "y": ry}
            work = partial(session.dispatch, program, arguments)
            work()
            yield Fact("session_resident_us", spread(each_call_us(work, blocks * calls // 4)))
            counted = float(ry.download()[0])
    wanted = blocks * calls // 4 + 1
    yield Outcome("session dispatches counted", Verdict.PASSED if counted == wanted else Verdict.FAILED, f"{counted:g}")


def host_dispatch(context: Context) -> Iterator[Finding]:
    """``Session.dispatch`` from NumPy arrays to NumPy arrays."""
    calls = 5 if context.emulated else 400
    found: dict[str, Any] = {}
    with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
        program = programs.copy("one")
        for name, nbytes in _HOST_SIZES.items():
            x = np.arange(nbytes // 4, dtype=np.uint32)
            inputs = {"x": x, "y": np.zeros_like(x)}
            work = partial(session.dispatch, program, inputs)
            right = np.array_equal(work()["y"], x)
            yield Outcome(f"dispatch of {name}", Verdict.PASSED if right else Verdict.FAILED)
            for _ in range(3):
                work()
            found[name] = spread(each_call_us(work, calls))
            yield Fact("dispatch_us", dict(found))


def graphs(context: Context) -> Iterator[Finding]:
    """Host time of replaying a chain of kernels as one graph, beside launching them one by one."""
    if not has_driver(context.backend):
        yield Outcome("graph replay", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    calls, batches = (5, 4) if context.emulated else (100, 40)
    program, found = programs.launch_probe(), dict[str, Any]()
    values = {"a": np.float32(1).tobytes(), "n": np.uint32(ELEMENTS).tobytes()}
    with Workbench(context.backend) as bench, bench.module(program) as module:
        driver = bench.driver
        x, y = bench.upload(np.ones(ELEMENTS, np.float32)), bench.upload(np.zeros(ELEMENTS, np.float32))
        launch = bench.prepare(program, module, (1, 1, 1), (0, 0, x, y), (1, 1, ELEMENTS, ELEMENTS), values)
        replays = 0
        for nodes in GRAPH_NODES:
            graph = driver.graph_create()
            chain(bench, graph, launch.kernels[0], nodes)
            executable = driver.graph_instantiate(graph)
            driver.graph_upload(executable, bench.stream)
            replay = driver.prepare_graph_launch(executable, bench.stream)
            replay()
            bench.synchronize()
            samples = batches_us(replay, bench.synchronize, calls=calls, batches=batches)
            found[f"{nodes} nodes"] = spread(samples)
            replays += nodes * (1 + calls * batches)
            wall = each_call_us(partial(_replay_and_wait, replay, bench), calls)
            found[f"{nodes} nodes, with wait"] = spread(wall)
            replays += nodes * calls
            driver.graph_exec_destroy(executable)
            driver.graph_destroy(graph)
        yield Fact("graph_us", found)
        counted = float(bench.download(y, 1, np.float32)[0])
        verdict = Verdict.PASSED if counted == replays else Verdict.FAILED
        yield Outcome("kernels replayed", verdict, f"{counted:g} of {replays}")
    few, many = (found[f"{nodes} nodes"]["median"] for nodes in (GRAPH_NODES[1], GRAPH_NODES[-1]))
    yield Fact("summary", {"host_us": few, "wanted_us": 4.0, "many_host_us": many, "many_wanted_us": 5.0})


def chain(bench: Workbench, graph: Graph, kernel: BoundKernel, nodes: int) -> None:
    """Add that many nodes, one behind the other."""
    after: list[GraphNode] = []
    for _ in range(nodes):
        handle = kernel.kernel.handle
        after = [bench.driver.graph_add_kernel(graph, after, handle, kernel.shape, kernel.parameters)]


def _replay_and_wait(replay: Callable[[], object], bench: Workbench) -> None:
    replay()
    bench.synchronize()


def _bytes(value: Any) -> memoryview:
    return memoryview(value.tobytes())
