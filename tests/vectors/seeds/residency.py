"""Which data stays on the device between runs, and what does that save?

There are upload counters, batches of graph queries, and sessions over one graph.

All figures are bytes or counts in 64 bits; a figure that exceeds them raises ``PlanError`` and never wraps.  An
"avoided" figure is the naive cost (upload, allocate, fence and launch anew every time) minus the planned one.

vyre-driver compares a batch of queries with its budget one graph at a time, although later groups rely on the earlier
graphs still being resident; ``graphs_stay_resident`` counts them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import Enum

from vyre.domain.errors import PlanError
from vyre.policies.record import U32, U64, checked_u64, record, verdict

_COUNTS = ("cold_uploads", "warm_reuses")
_BYTES = ("upload_bytes", "avoided_upload_bytes")


@record
class ResidencyCounters:
    """Uploads that were made, and uploads that resident data saved.  A commutative monoid under ``add``."""

    cold_uploads: U64 = 0
    warm_reuses: U64 = 0
    upload_bytes: U64 = 0
    avoided_upload_bytes: U64 = 0

    def add(self, other: ResidencyCounters) -> ResidencyCounters:
        """Returns the sum field by field; raises ``PlanError``: ``CounterOverflow``, ``ByteCounterOverflow``."""
        return self._combined(other, 1, "Overflow")

    def delta_since(self, earlier: ResidencyCounters) -> ResidencyCounters:
        """Returns the difference from ``earlier``; raises ``PlanError``: ``CounterUnderflow``,
        ``ByteCounterUnderflow``.
        """
        return self._combined(earlier, -1, "Underflow")

    def _combined(self, other: ResidencyCounters, sign: int, failure: str) -> ResidencyCounters:
        totals = {}
        for names, prefix in ((_COUNTS, "Counter"), (_BYTES, "ByteCounter")):
            for name in names:
                total = getattr(self, name) + sign * getattr(other, name)
                if not 0 <= total < 2**64:
                    raise PlanError(prefix + failure, counter=name)
                totals[name] = total
        return ResidencyCounters(**totals)


def _reuse(graph_bytes: int, uses: int, *, uploads: bool) -> ResidencyCounters:
    """Returns the counters of ``uses`` of one graph, the first of which may have to upload it."""
    warm = uses - uploads
    avoided = checked_u64(warm * graph_bytes, "avoided graph upload bytes")
    return ResidencyCounters(int(uploads), warm, graph_bytes * uploads, avoided)


@record
class GraphQuery:
    """A traversal: ``graph_layout_hash`` identifies the graph, ``traversal_key`` the kernel."""

    query: U32
    graph_layout_hash: U64
    traversal_key: U64
    graph_upload_bytes: U64
    frontier_bytes: U64
    scratch_bytes: U64
    output_bytes: U64


@record
class QueryBatch:
    """Queries, and the memory for them.

    ``graphs_stay_resident`` counts the graphs that were uploaded for earlier groups against the budget.  Without it, as
    in vyre-driver, only one graph counts at a time, although the plan relies on the earlier ones still being resident.
    """

    queries: tuple[GraphQuery, ...]
    budget_bytes: U64
    graphs_stay_resident: bool = False


@verdict
class QueryGroup:
    """Queries that run as one launch over one resident graph."""

    graph_layout_hash: int
    traversal_key: int
    queries: tuple[int, ...]
    graph_upload_bytes: int
    frontier_bytes: int
    peak_scratch_bytes: int
    output_bytes: int
    resident_bytes: int
    avoided_launches: int
    avoided_host_fences: int
    avoided_graph_upload_bytes: int
    graph_reuse: ResidencyCounters


@verdict
class QueryPlan:
    """Groups in launch order, and their totals."""

    groups: tuple[QueryGroup, ...]
    launch_count: int
    avoided_launches: int
    avoided_host_fences: int
    avoided_graph_upload_bytes: int
    graph_reuse: ResidencyCounters
    peak_resident_bytes: int
    final_only_host_fence_per_group: bool = True

    @property
    def label(self) -> str:
        """Whether one launch runs all queries, for telemetry."""
        return "one group" if len(self.groups) == 1 else "groups"


def plan_queries(batch: QueryBatch) -> QueryPlan:
    """Batches queries that share graph and traversal, as many per launch as the budget holds.

    A group needs ``graph + sum of frontiers + largest scratch + sum of outputs``.  Groups ascend by (graph, traversal),
    their queries by id, and are cut greedily; a graph is uploaded once.  O(n log n).
    """
    if batch.budget_bytes == 0:
        raise PlanError("ZeroBudget")
    graph_bytes = _check_queries(batch.queries)
    by_kernel: dict[tuple[int, int], list[GraphQuery]] = defaultdict(list)
    for query in batch.queries:
        by_kernel[query.graph_layout_hash, query.traversal_key].append(query)
    uploaded: dict[int, int] = {}
    groups: list[QueryGroup] = []
    for (graph, _), queries in sorted(by_kernel.items()):
        others = sum(uploaded.values()) - uploaded.get(graph, 0) if batch.graphs_stay_resident else 0
        for chunk in _cut(sorted(queries, key=lambda q: q.query), others, batch.budget_bytes):
            groups.append(_group(chunk, others, uploads=graph not in uploaded))
            uploaded[graph] = graph_bytes[graph]
    reuse = _total(group.graph_reuse for group in groups)
    return QueryPlan(
        groups=tuple(groups),
        launch_count=len(groups),
        avoided_launches=len(batch.queries) - len(groups),
        avoided_host_fences=len(batch.queries) - len(groups),
        avoided_graph_upload_bytes=reuse.avoided_upload_bytes,
        graph_reuse=reuse,
        peak_resident_bytes=max((group.resident_bytes for group in groups), default=0),
    )


def _total(counters: Iterable[ResidencyCounters]) -> ResidencyCounters:
    """Returns the sum; counters that exceed 64 bits raise ``PlanError("ByteCountOverflow")``."""
    total = ResidencyCounters()
    for each in counters:
        try:
            total = total.add(each)
        except PlanError as error:
            raise PlanError("ByteCountOverflow", field="graph reuse counters") from error
    return total


def _check_queries(queries: tuple[GraphQuery, ...]) -> dict[int, int]:
    """Returns the bytes of each graph; the first size given for a graph is the expected one."""
    seen: set[int] = set()
    graph_bytes: dict[int, int] = {}
    for q in queries:
        if q.query in seen:
            raise PlanError("DuplicateQuery", query=q.query)
        seen.add(q.query)
        for value, kind in (
            (q.graph_layout_hash, "ZeroGraphHash"),
            (q.traversal_key, "ZeroTraversalKey"),
            (q.graph_upload_bytes, "ZeroGraphUploadBytes"),
        ):
            if value == 0:
                raise PlanError(kind, query=q.query)
        expected = graph_bytes.setdefault(q.graph_layout_hash, q.graph_upload_bytes)
        if expected != q.graph_upload_bytes:
            raise PlanError(
                "GraphUploadBytesMismatch",
                graph_layout_hash=q.graph_layout_hash,
                expected_bytes=expected,
                actual_bytes=q.graph_upload_bytes,
                query=q.query,
            )
    return graph_bytes


def _cut(queries: list[GraphQuery], others: int, budget: int) -> list[list[GraphQuery]]:
    """Returns chunks that fit the budget beside ``others`` bytes of other graphs."""
    chunks: list[list[GraphQuery]] = []
    frontier = scratch = output = 0
    for q in queries:
        sizes = (frontier + q.frontier_bytes, max(scratch, q.scratch_bytes), output + q.output_bytes)
        needed = _resident_bytes(q.graph_upload_bytes + others, *sizes)
        if not chunks or needed > budget:
            chunks.append([])
            sizes = (q.frontier_bytes, q.scratch_bytes, q.output_bytes)
            needed = _resident_bytes(q.graph_upload_bytes + others, *sizes)
        if needed > budget:
            raise PlanError(
                "OverBudget",
                fix="give the launch more memory, or split the query.",
                graph_layout_hash=q.graph_layout_hash,
                traversal_key=q.traversal_key,
                required_bytes=needed,
                budget_bytes=budget,
            )
        chunks[-1].append(q)
        frontier, scratch, output = sizes
    return chunks


def _resident_bytes(graph: int, frontier: int, scratch: int, output: int) -> int:
    return checked_u64(graph + frontier + scratch + output, "resident bytes")


def _group(queries: list[GraphQuery], others: int, *, uploads: bool) -> QueryGroup:
    first, count = queries[0], len(queries)
    frontier = sum(q.frontier_bytes for q in queries)
    scratch = max(q.scratch_bytes for q in queries)
    output = sum(q.output_bytes for q in queries)
    reuse = _reuse(first.graph_upload_bytes, count, uploads=uploads)
    return QueryGroup(
        graph_layout_hash=first.graph_layout_hash,
        traversal_key=first.traversal_key,
        queries=tuple(q.query for q in queries),
        graph_upload_bytes=reuse.upload_bytes,
        frontier_bytes=frontier,
        peak_scratch_bytes=scratch,
        output_bytes=output,
        resident_bytes=_resident_bytes(first.graph_upload_bytes + others, frontier, scratch, output),
        avoided_launches=count - 1,
        avoided_host_fences=count - 1,
        avoided_graph_upload_bytes=reuse.avoided_upload_bytes,
        graph_reuse=reuse,
    )


class Readback(Enum):
    """When outputs are read back: once at the end, or after every run."""

    FINAL_ONLY = "final_only"
    PER_RUN = "per_run"


@record
class SessionProfile:
    """``run_count`` runs over one graph; frontier and output bytes are those of one run."""

    graph_layout_hash: U64
    graph_bytes: U64
    run_count: U64
    per_run_frontier_bytes: U64
    reusable_scratch_bytes: U64
    per_run_output_bytes: U64
    budget_bytes: U64
    readback: Readback


@verdict
class SessionPlan:
    """The bytes that a resident session uploads, holds and saves; the flags state the properties on which that
    relies.
    """

    graph_layout_hash: int
    one_time_graph_upload_bytes: int
    total_frontier_refresh_bytes: int
    peak_resident_bytes: int
    avoided_graph_upload_bytes: int
    graph_reuse: ResidencyCounters
    avoided_device_allocations: int
    avoided_host_fences: int
    host_readback_bytes: int
    graph_topology_resident: bool = True
    scratch_reused: bool = True
    final_only_host_readback: bool = True


_BUFFERS_PER_RUN = 3
"""Frontier, scratch and output: the buffers that a run without a session allocates."""


def plan_session(profile: SessionProfile) -> SessionPlan:
    """Plans to upload the graph once, keep scratch, refresh the frontier each run, and read back once.  O(1).

    Raises ``PlanError``: ``ZeroGraphHash``, ``ZeroGraphBytes``, ``ZeroRuns``, ``ZeroBudget``,
    ``PerRunReadbackRejected``, ``OverBudget``, ``ByteCountOverflow``.
    """
    for value, kind in (
        (profile.graph_layout_hash, "ZeroGraphHash"),
        (profile.graph_bytes, "ZeroGraphBytes"),
        (profile.run_count, "ZeroRuns"),
        (profile.budget_bytes, "ZeroBudget"),
    ):
        if value == 0:
            raise PlanError(kind)
    if profile.readback is Readback.PER_RUN:
        raise PlanError("PerRunReadbackRejected", fix="read back once, after the last run.")
    peak = _resident_bytes(
        profile.graph_bytes,
        profile.per_run_frontier_bytes,
        profile.reusable_scratch_bytes,
        profile.per_run_output_bytes,
    )
    if peak > profile.budget_bytes:
        raise PlanError(
            "OverBudget",
            fix="bind fewer arrays at once, or give the session more memory.",
            required_bytes=peak,
            budget_bytes=profile.budget_bytes,
        )
    runs = profile.run_count
    reuse = _reuse(profile.graph_bytes, runs, uploads=True)
    return SessionPlan(
        graph_layout_hash=profile.graph_layout_hash,
        one_time_graph_upload_bytes=profile.graph_bytes,
        total_frontier_refresh_bytes=checked_u64(runs * profile.per_run_frontier_bytes, "frontier refresh bytes"),
        peak_resident_bytes=peak,
        avoided_graph_upload_bytes=reuse.avoided_upload_bytes,
        graph_reuse=reuse,
        avoided_device_allocations=checked_u64(_BUFFERS_PER_RUN * (runs - 1), "avoided allocations"),
        avoided_host_fences=runs - 1,
        host_readback_bytes=profile.per_run_output_bytes,
    )
