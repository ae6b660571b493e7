"""Work queues, in phases and as rings: items that are found while others are processed, in one launch.

What only hardware shows: that lanes of many workgroups reserve places of one queue, and claim items of one ring, at
once, and lose none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from gpu_runs.check.judging import counted, judged, refused, same, spent
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre import Session, WorkQueueOverflow
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.testing.outcomes import Outcome, Verdict


def queues(context: Context) -> Iterator[Finding]:
    if context.tests is None or not has_driver(context.backend):
        yield Outcome("work queues", Verdict.SKIPPED, f"no tests folder, or no CUDA driver below `{context.backend}`")
        return
    support = import_module("support.work_queues")
    tasks, nodes = (60, 60) if context.emulated else (20_000, 20_000)
    trees = {
        "bushy": support.Tree.of([k // 3 for k in range(tasks)]),
        "wide": support.Tree.of([0] * tasks),
        "deep": support.Tree.of(range(min(tasks, 500))),
    }
    with session_on(backend_with(context.backend, CudaOptions(graph_after=None))) as session:
        for name, tree in trees.items():
            yield from _tree(session, support, f"a {name} tree", tree)
        yield from _chunks(session, support, trees["deep"])
        yield from _search(session, support, nodes, 2 if context.emulated else 5)
        for name, tree in trees.items():
            yield from _ring(session, support, f"a {name} tree by a ring", tree, 2 if context.emulated else 5)
        yield from _ring_chunks(session, support, trees["bushy"])
        yield from _ring_overflow(session, support)


def _tree(session: Session, support: Any, name: str, tree: Any) -> Iterator[Finding]:
    warm = support.tree_queue(session, tree, tree.need)
    warm.queue(warm.start)
    once = support.tree_queue(session, tree, tree.need)
    results: list[Any] = []
    work = spent(session, lambda: results.append(once.queue(once.start)))
    (result,) = results
    yield same(f"{name}: every task once", once.hits.download(), np.ones(tree.tasks, np.uint32))
    found = (result.processed, result.pushed, result.phases)
    yield judged(f"{name}: items and phases", found == (tree.tasks, tree.tasks, len(tree.widths)), str(found))
    yield counted(f"{name}: one launch and one wait", work, kernel_launches=1, sync_points=1)
    short = support.tree_queue(session, tree, tree.need - 1)
    yield refused(f"{name}: one place too few", lambda: short.queue(short.start), WorkQueueOverflow)
    yield judged(f"{name}: no task twice beside an overflow", int(short.hits.download().max()) == 1)
    again = support.tree_queue(session, tree, tree.need)
    yield judged(f"{name}: the session works on", again.queue(again.start).processed == tree.tasks)
    yield Fact(name, {"tasks": tree.tasks, "capacity": tree.need, "groups": once.queue.grid.groups})


def _chunks(session: Session, support: Any, tree: Any) -> Iterator[Finding]:
    """Bounded launches, all enqueued where the total is known; without it the host looks after each."""
    launches = -(-tree.tasks // 10)
    for total, waits in ((tree.tasks, 1), (None, launches)):
        found = support.tree_queue(session, tree, 2, items_per_launch=10, total_items=total)
        work = spent(session, partial(found.queue, found.start))
        yield same(f"bounded launches, total {total}", found.hits.download(), np.ones(tree.tasks, np.uint32))
        name = f"bounded launches, total {total}: launches and waits"
        yield counted(name, work, kernel_launches=launches, sync_points=waits)


def _search(session: Session, support: Any, nodes: int, repeats: int) -> Iterator[Finding]:
    """The levels are those of a plain search, whatever order nodes are found in."""
    generator = np.random.default_rng(5)
    edges = zip(generator.integers(0, nodes, 3 * nodes), generator.integers(0, nodes, 3 * nodes), strict=True)
    graph = import_module("support.fixed_points").Graph.of(nodes, [(int(a), int(b)) for a, b in edges])
    wanted = support.distances(graph)
    for repeat in range(repeats):
        found = support.search_queue(session, graph, nodes)
        found.queue(found.start)
        yield same(f"search {repeat}: levels", found.levels.download(), wanted)
        reached = (wanted != np.iinfo(np.uint32).max).astype(np.uint32)
        yield same(f"search {repeat}: every node once", found.hits.download(), reached)


def _ring(session: Session, support: Any, name: str, tree: Any, repeats: int) -> Iterator[Finding]:
    """Which warp claims an item differs from run to run; that each is claimed once does not."""
    slots = 1 << max(tree.tasks - 1, 1).bit_length()
    found = support.tree_queue(session, tree, slots, discipline="ring")
    results: list[Any] = []
    for repeat in range(repeats):
        work = spent(session, lambda: results.append(found.queue(found.start)))
        wanted = np.full(tree.tasks, repeat + 1, np.uint32)
        yield same(f"{name}, {repeat}: every task once", found.hits.download(), wanted)
        counts = (results[-1].processed, results[-1].pushed)
        yield judged(f"{name}, {repeat}: items", counts == (tree.tasks, tree.tasks), str(counts))
        if repeat:
            yield counted(f"{name}, {repeat}: one launch and one wait", work, kernel_launches=1, sync_points=1)
    rounds = [result.phases for result in results]
    yield Fact(name, {"tasks": tree.tasks, "slots": slots, "groups": found.queue.grid.groups, "rounds": rounds})


def _ring_chunks(session: Session, support: Any, tree: Any) -> Iterator[Finding]:
    most = max(tree.tasks // 6, 1)
    slots = 1 << max(tree.tasks - 1, 1).bit_length()
    options = {"discipline": "ring", "items_per_launch": most, "total_items": tree.tasks}
    found = support.tree_queue(session, tree, slots, **options)
    work = spent(session, partial(found.queue, found.start))
    yield same("bounded launches of a ring", found.hits.download(), np.ones(tree.tasks, np.uint32))
    yield counted("bounded launches of a ring: launches", work, kernel_launches=-(-tree.tasks // most), sync_points=1)


def _ring_overflow(session: Session, support: Any) -> Iterator[Finding]:
    """One warp alone: 33 children of one task wait at once, whatever the schedule."""
    short = support.tree_queue(session, support.Tree.of([0] * 33), 32, discipline="ring")
    yield refused("a ring with one slot too few", lambda: short.queue(short.start), WorkQueueOverflow)
    yield judged("a ring: no task twice beside an overflow", int(short.hits.download().max()) == 1)
    enough = support.tree_queue(session, support.Tree.of([0] * 32), 32, discipline="ring")
    yield judged("a ring with as many slots as wait", enough.queue(enough.start).processed == 33)
