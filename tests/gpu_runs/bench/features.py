"""What the host no longer does one by one: queries, results, waves, rounds, items, steps and jobs in one launch each,
beside the same work as launches of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from benchmarks import (
    array_rows,
    fixpoint_rows,
    joined_step_rows,
    megakernel_rows,
    persistent_rows,
    query_rows,
    work_queue_rows,
)
from benchmarks.harness import Samples, measure
from benchmarks.site import Site

import vyre
from gpu_runs.bench.pairs import Measurement, measured, site_of
from gpu_runs.check.arrays import Exporter, Lender
from gpu_runs.check.libraries import installed
from gpu_runs.context import Context
from gpu_runs.findings import Finding
from gpu_runs.workbench import backend_with, session_on
from vyre import FixpointExecutor, ResidentArray, Step
from vyre.adapters.cuda.runtime.device import CudaOptions

_GRAPH_STEPS: Final = 100
_UNROLLED_LIMIT: Final = 1024
_FEW: Final = 5
"""Rounds of work that takes long."""
_DISPATCHES_AS_GRAPHS: Final = CudaOptions(graph_after=2)
_DISPATCHES_PLAINLY: Final = CudaOptions(graph_after=None)
_FLOATS: Final = np.arange(64, dtype=np.float32)


def queries(context: Context) -> Iterator[Finding]:
    """64 queries on one resident graph as one launch, and as bound launches with their copies."""
    sizes: dict[str, Any] = {"count": 8, "nodes": 64, "warm": 1} if context.emulated else {}
    run = partial(query_rows.measure_queries, site_of(context), **sizes)
    yield from measured(context, {"one edge": partial(run, several=False), "several edges": partial(run, several=True)})


def packing(context: Context) -> Iterator[Finding]:
    """Many small results as one copy or two, and a download for each."""
    site = site_of(context)
    sizes: dict[str, Any] = {"results": 40} if context.emulated else {}
    packed = partial(array_rows.measure_packed, site, **sizes)
    slots = partial(array_rows.measure_slots, site, **sizes)
    pairs = {
        "results, bound": partial(packed, bound=True),
        "results, as a list": partial(packed, bound=False),
        "slots, equal": partial(slots, equal=True),
        "slots, of any length": partial(slots, equal=False),
    }
    yield from measured(context, pairs, _FEW)


def arrays(context: Context) -> Iterator[Finding]:
    """Updates in place beside those that copy, parts of memory, and memory that is shown to others and taken from
    them."""
    site = site_of(context)
    sizes: dict[str, Any] = {"elements": 1000} if context.emulated else {}
    in_place = partial(array_rows.measure_in_place, site, **sizes)
    shown = Site(
        lambda: session_on(backend_with(context.backend, _DISPATCHES_PLAINLY, exports=True)), time.perf_counter
    )
    pairs: dict[str, Measurement] = {
        "in place, beside a new array": partial(in_place, target=False),
        "in place, beside another array": partial(in_place, target=True),
        "a part": partial(array_rows.measure_part, site),
        "shown by DLPack": partial(_shown, shown, lambda held: held.__dlpack__()),
        "shown by __cuda_array_interface__": partial(_shown, shown, lambda held: held.__cuda_array_interface__),
        "adopted by DLPack": partial(_adopted, shown, Lender),
        "adopted by __cuda_array_interface__": partial(_adopted, shown, Exporter),
    }
    if not context.emulated:  # they would use addresses of an emulated device
        pairs |= {f"taken by {name}": partial(_shown, shown, library.take) for name, library in installed()}
    yield from measured(context, pairs)


def _shown(site: Site, take: Callable[[ResidentArray], object], rounds: int) -> Samples:
    """What showing takes; where ``take`` is another library's, taking too."""
    with site.open() as session, session.resident(_FLOATS) as held:
        return measure(lambda: take(held), rounds)


def _adopted(site: Site, make: Callable[[ResidentArray], object], rounds: int) -> Samples:
    """The whole exchange: memory that is shown becomes ours, and is given back."""
    with site.open() as session, session.resident(_FLOATS) as held:

        def adopted() -> None:
            with session.adopt(make(held)) as taken:
                if taken.nbytes != held.nbytes:
                    raise AssertionError("what is adopted has another size")

        return measure(adopted, rounds)


def waves(context: Context) -> Iterator[Finding]:
    """200 dependent waves as one kernel, and as launches one by one or as a graph."""
    sizes: dict[str, Any] = {"waves": 4, "items": 300, "at_once": 1} if context.emulated else {}
    site = site_of(context)
    pairs = {
        "waves, beside launches": partial(megakernel_rows.measure_waves, site, {"plain": True}, **sizes),
        "waves, beside a graph": partial(megakernel_rows.measure_waves, site, {"graph": True, "fused": False}, **sizes),
    }
    yield from measured(context, pairs)


def work_queues(context: Context) -> Iterator[Finding]:
    """A search by a work queue, in phases and as a ring, and with a launch and a look of the host for each level."""
    site = site_of(context)
    nodes, edges, length = (40, 120, 8) if context.emulated else (100_000, 1_000_000, 10_000)
    graphs = {
        "random graph": partial(work_queue_rows.random_graph, nodes, edges),
        "path": partial(work_queue_rows.path, length),
    }
    pairs = {
        name + form: partial(work_queue_rows.measure_search, site, graph, ring=bool(form), warm=1)
        for name, graph in graphs.items()
        for form in ("", ", ring")
    }
    yield from measured(context, pairs, _FEW)


def fixed_points(context: Context) -> Iterator[Finding]:
    """1 000 rounds by every executor of the device, beside a host that launches, waits and reads a flag each time; and
    a graph of 100 tiny steps beside bound launches."""
    site = site_of(context)
    sizes: dict[str, Any] = {"length": 5, "warm": 1} if context.emulated else {"warm": 2}
    run = partial(fixpoint_rows.measure_fixed_point, site)
    pairs: dict[str, Measurement] = {}
    for lanes in (64,) if context.emulated else (256, 1024, 1 << 16):
        for executor in (
            None,
            FixpointExecutor.COOPERATIVE,
            FixpointExecutor.WHILE_GRAPH,
            FixpointExecutor.UNROLLED_GRAPH,
        ):
            limit = {"limit": _UNROLLED_LIMIT} if executor is FixpointExecutor.UNROLLED_GRAPH else {}
            name = f"{lanes} lanes, {executor.value if executor else 'as planned'}"
            pairs[name] = partial(run, lanes, executor=executor, **limit, **sizes)
    steps = {"steps": 4, "settled": 50} if context.emulated else {}
    pairs["a list of tiny steps"] = partial(fixpoint_rows.measure_list, site, **steps)
    yield from measured(context, pairs, _FEW)


def joined(context: Context) -> Iterator[Finding]:
    """A chain of 8 maps as one launch, which moves an eighth of the bytes."""
    sizes: dict[str, Any] = {"elements": 2_000} if context.emulated else {"elements": 50_000_000}
    chain = {"8 maps": partial(joined_step_rows.measure_chain, site_of(context), **sizes)}
    yield from measured(context, chain)


def many_jobs(context: Context) -> Iterator[Finding]:
    """10 000 small jobs of a kernel that stays, beside dispatches of the same inputs, launched or replayed as graphs,
    and beside launches on memory that holds the inputs already."""
    count, depth = (20, 1) if context.emulated else (persistent_rows.JOBS, 64)
    plainly, as_graphs = site_of(context, _DISPATCHES_PLAINLY), site_of(context, _DISPATCHES_AS_GRAPHS)

    def beside(site: Site, others: persistent_rows.Others) -> Measurement:
        return partial(
            persistent_rows.measure_many, site, partial(persistent_rows.polynomial, depth), others, count=count
        )

    pairs = {
        "beside dispatches": beside(plainly, persistent_rows.dispatches),
        "beside dispatches as graphs": beside(as_graphs, persistent_rows.dispatches),
        "beside bound launches": beside(plainly, persistent_rows.bound_launches),
        "beside a graph of bound launches": beside(as_graphs, _replayed),
    }
    yield from measured(context, pairs, _FEW)


def _replayed(session: vyre.Session, program: vyre.Program, inputs: list[dict[str, Any]]) -> Callable[[], Any]:
    """As many launches in graphs of 100, on resident memory with the last of the inputs."""
    x, y = session.resident(inputs[-1]["x"]), session.resident(4 * persistent_rows.ELEMENTS)
    together = min(_GRAPH_STEPS, len(inputs))
    steps = [Step(program, {"a": 0.5, "x": x, "y": y})] * together
    sequence = session.sequence(steps, modes={"graph": True, "fused": False})

    def run() -> Any:
        sequence(rounds=len(inputs) // together)
        return y.download()

    return run
