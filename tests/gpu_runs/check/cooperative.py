"""Kernels whose workgroups wait for each other: waves in one kernel, and rounds that end by themselves.

What only hardware shows: that all workgroups of such a launch run at once, and that what one has written before a
barrier is what the others read behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import numpy as np
from benchmarks.megakernel_rows import reversal

from gpu_runs.check.features import ring
from gpu_runs.check.judging import Array, counted, judged, refused, same, spent
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Workbench, backend_with, has_driver, session_on, small_driver
from vyre import DispatchConfig, FixpointExecutor, Program, Repeat, Session, Step
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaOptions
from vyre.adapters.cuda.seam import CudaCallError, LaunchShape
from vyre.domain.errors import DeviceLimitExceeded, PlanError
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.testing.outcomes import Outcome, Verdict

_TOO_LARGE: Final = 720
"""What the driver answers to a cooperative launch that does not fit."""
_PLAIN: Final = CudaOptions(graph_after=None)
_WORKGROUP: Final = 64
_TOO_MANY: Final = 1 << 16
"""Workgroups, more than any device holds at once."""


def reversed_by_numpy(x: Array, waves: int) -> tuple[Array, Array]:
    """Both arrays after so many waves of ``reversal`` there and back, from x and zeros."""
    held = [x.copy(), np.zeros_like(x)]
    for wave in range(waves):
        held[1 - wave % 2] = held[wave % 2][::-1] * np.float32(0.5) + np.float32(1)
    return held[0], held[1]


def waves(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("waves", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    cases = ((4, 600),) if context.emulated else ((200, 2_000), (50, 100_000), (8, 1 << 22))
    with session_on(backend_with(context.backend, _PLAIN)) as session:
        for count, items in cases:
            yield from _waves(session, count, items)
    yield from _capacity(context)


def _waves(session: Session, count: int, items: int) -> Iterator[Finding]:
    name = f"{count} waves of {items}"
    x = np.arange(items, dtype=np.float32)
    wanted = reversed_by_numpy(x, count)
    with session.resident(x) as a, session.resident(np.zeros_like(x)) as b:
        steps = [Step(reversal(), {"x": a, "y": b}), Step(reversal(), {"x": b, "y": a})]
        with session.sequence([Repeat(steps, count // 2)], modes={"megakernel": True}) as joined:
            joined()
            a.upload(x)
            work = spent(session, joined)
            why = joined.plan().groups[0].why
        yield same(f"{name}: one side", a.download(), wanted[0])
        yield same(f"{name}: other side", b.download(), wanted[1])
        yield counted(f"{name}: one launch, one wait", work, kernel_launches=1, graph_launches=0, sync_points=1)
        yield Fact(name, why)
        a.upload(x)
        with session.sequence([Repeat(steps, count // 2)], modes={"plain": True, "fused": False}) as apart:
            work = spent(session, apart)
        yield same(f"{name}: launches one by one", a.download(), wanted[0])
        yield counted(f"{name}: a launch for each wave", work, kernel_launches=count)


def _capacity(context: Context) -> Iterator[Finding]:
    """The largest grid with barriers runs; one workgroup more is refused before the driver, which would refuse it."""
    program = ring(1, 1, _WORKGROUP)  # its arrays have one element: what counts is the grid
    native = DispatchConfig(cooperative=True)
    options = CudaOptions(graph_after=None, grid_sync=GridSyncMode.NATIVE)
    inputs = {name: np.zeros(1, np.uint32) for name in "ab"}
    with session_on(backend_with(context.backend, options, small_driver(context.backend))) as session:
        try:
            session.dispatch(program, inputs, native, grid=_TOO_MANY)
        except DeviceLimitExceeded as error:
            fitting = re.search(r"that run at once is \d+; .* allows (\d+)", str(error))
        else:
            fitting = None
        if fitting is None:
            yield judged(
                f"a grid of {_TOO_MANY} workgroups with barriers", False, "was not refused with the number that fit"
            )
            return
        most = int(fitting[1])
        yield Fact("workgroups with barriers", most)
        work = spent(session, lambda: session.dispatch(program, inputs, native, grid=most))
        yield counted("the largest grid with barriers", work, kernel_launches=1)
        refusals: list[Outcome] = []

        def one_more() -> None:
            refusals.append(
                refused(
                    "one workgroup more",
                    lambda: session.dispatch(program, inputs, native, grid=most + 1),
                    DeviceLimitExceeded,
                )
            )

        work = spent(session, one_more)
        yield from refusals
        yield counted("one workgroup more never gets to the driver", work, kernel_launches=0, sync_points=0)
    yield from _refused_by_the_driver(context, program)


def _refused_by_the_driver(context: Context, program: Program) -> Iterator[Finding]:
    """The control: the same launch without the check in front of it."""
    driver = small_driver(context.backend)
    with Workbench(context.backend, driver=driver) as bench, bench.module(program) as module:
        (kernel,) = module.kernels
        x, y, z = kernel.emitted.block
        each = bench.driver.occupancy(kernel.handle, x * y * z, kernel.emitted.shared_dynamic)
        fitting = each * bench.device.facts.multiprocessors
        a, b = (bench.upload(np.zeros(1, np.uint32)) for _ in range(2))
        launch = bench.prepare(program, module, (fitting, 1, 1), (a, b), (1, 1))
        launch()
        bench.synchronize()
        (bound,) = launch.kernels
        shape = LaunchShape((fitting + 1, 1, 1), bound.shape.block, bound.shape.dynamic_shared, cooperative=True)
        code = 0
        try:
            bench.driver.prepare_launch(kernel.handle, shape, bench.stream, bound.parameters)()
        except CudaCallError as error:
            code = error.code
        yield judged("the driver refuses one workgroup more", code == _TOO_LARGE, f"code {code}")


def fixed_points(context: Context) -> Iterator[Finding]:
    if context.tests is None or not has_driver(context.backend):
        yield Outcome("fixed points", Verdict.SKIPPED, f"no tests folder, or no CUDA driver below `{context.backend}`")
        return
    support = import_module("support.fixed_points")
    length = 9 if context.emulated else 400
    for executor in FixpointExecutor:
        if executor is FixpointExecutor.COMMAND_LIST:  # of the host's own processor
            continue
        options = DEFAULT_OPTIONS if executor is FixpointExecutor.WHILE_GRAPH else _PLAIN
        with session_on(backend_with(context.backend, options)) as session:
            try:
                support.bound(session, support.Graph.chain(2), support.LABELS, 1, executor=executor)
            except PlanError as error:
                yield Outcome(executor.value, Verdict.SKIPPED, str(error))
                continue
            yield from _rounds(session, support, executor, length)


def _rounds(session: Session, support: Any, executor: FixpointExecutor, length: int) -> Iterator[Finding]:
    """A chain needs as many rounds as it has nodes, and a star two; a limit below that is told."""
    name = executor.value
    cases = (
        ("chain", support.Graph.chain(length), (length - 2, length - 1, length + 50)),
        ("star", support.Graph.star(length), (1, 2, 50)),
    )
    for kind, graph, limits in cases:
        for limit in limits:
            values, rounds, converged = graph.answer(support.LABELS, limit)
            found = support.bound(session, graph, support.LABELS, limit, executor=executor)
            result = found.run()
            yield same(f"{name}: {kind}, limit {limit}", found.content(), values)
            seen = (result.iterations, result.converged)
            yield judged(f"{name}: rounds of {kind}, limit {limit}", seen == (rounds, converged), str(seen))
    chain = support.Graph.chain(length)
    found = support.bound(session, chain, support.LABELS, length + 50, executor=executor)
    found.run()  # what is compiled and recorded once
    start = chain.start(support.LABELS)
    found.found.upload(start)
    work = spent(session, found.run)
    yield same(f"{name}: again", found.content(), chain.answer(support.LABELS, length)[0])
    wanted = {
        FixpointExecutor.COOPERATIVE: {
            "kernel_launches": 1,
            "graph_launches": 0,
            "sync_points": 1,
            "downloaded_bytes": 8,
        },
        FixpointExecutor.WHILE_GRAPH: {"graph_launches": 1, "sync_points": 1, "downloaded_bytes": 8},
        FixpointExecutor.UNROLLED_GRAPH: {"sync_points": 1, "downloaded_bytes": 8},
        FixpointExecutor.POLLED: {"sync_points": length, "graph_launches": 0, "downloaded_bytes": 4 * length},
    }[executor]
    yield counted(f"{name}: launches and waits", work, **wanted)
    yield Fact(name, {key: value for key, value in work.items() if value and key in _SHOWN})
    everything = support.bound(session, chain, support.LABELS, length + 50, executor=executor, early_exit=False)
    rounds = everything.run().iterations
    yield judged(f"{name}: without an early exit all rounds run", rounds == length + 50, f"{rounds}")


_SHOWN: Final = (
    "kernel_launches",
    "graph_launches",
    "graph_kernels",
    "sync_points",
    "uploaded_bytes",
    "downloaded_bytes",
)
