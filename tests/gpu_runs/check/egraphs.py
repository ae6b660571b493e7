"""E-graphs: classes that are right at a million terms, in one launch, and whatever the signatures are.

What only hardware shows: that lanes of many workgroups hook classes and bid for slots at once, and none is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.egraph_rivals import optimizer_classes
from benchmarks.egraph_rows import of_terms
from benchmarks.egraph_shapes import chain

from gpu_runs.check.judging import judged, refused, same, spent
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre import PlanError, Session
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS
from vyre.egraph import ClosedEGraph, EGraph
from vyre.graphs.egraph_closing import close
from vyre.testing.outcomes import Outcome, Verdict

MASKS: Final = (0, 1, 0xFFFF_0000)
"""The bits of signatures that count."""


def egraphs(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("e-graphs", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    many, some, links = (400, 60, 30) if context.emulated else (1_000_000, 3_000, 1_000)
    with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
        of_terms(100).close(session, rows=False)
        yield from _right(session, f"{many} terms", of_terms(many))
        yield from _right(session, f"a chain of {links}", chain(links))
        graph = of_terms(some)
        wanted = optimizer_classes(graph)
        for mask in MASKS:
            found = close(graph, session, signature_mask=mask)
            yield same(f"signatures of the bits {mask:#x}", found.classes, wanted)
        least = len(found.rows.terms)
        yield same(f"{some} slots", graph.close(session, slots=some).classes, wanted)
        yield refused(f"{least - 1} slots", lambda: graph.close(session, slots=least - 1), PlanError)


def _right(session: Session, name: str, graph: EGraph) -> Iterator[Finding]:
    results: list[ClosedEGraph] = []
    work = spent(session, lambda: results.append(graph.close(session, rows=False)))
    (closed,) = results
    yield same(f"{name}: classes", closed.classes, optimizer_classes(graph))
    launches = {counter: work[counter] for counter in ("kernel_launches", "graph_launches")}
    yield judged(f"{name}: one launch", sum(launches.values()) == 1, str(launches))
    read, planned = work["downloaded_bytes"], closed.plan.readback_bytes
    yield judged(f"{name}: the planned bytes come back", read == planned, f"{read}, not {planned}")
    yield Fact(name, {"terms": len(closed), "classes": closed.class_count, "rounds": closed.rounds})
