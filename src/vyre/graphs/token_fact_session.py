"""Token/fact graphs on a device: uploaded once, and asked many times for what frontiers reach and for components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre.adapters.forks import process_lock
from vyre.app.fixpoint import ExecutorName, FixedPoint, FixedPointResult
from vyre.app.sequences.steps import Step
from vyre.domain.arguments import expect, items_of
from vyre.domain.errors import InvalidConfig, InvalidInput, InvalidResource, PlanError
from vyre.domain.frozen import frozen
from vyre.domain.printable import shown
from vyre.domain.record import U32_MAX, U64_MAX
from vyre.domain.unique import Closing
from vyre.domain.upload_reuse import UploadReuse
from vyre.graphs import token_fact_kernels as kernels
from vyre.graphs.columns import Words
from vyre.graphs.token_fact import ALL_KINDS, FactGraph, Kinds, kinds_mask
from vyre.policies.frontiers.frontier_ir import (
    FrontierDomain,
    FrontierIr,
    FrontierIrPlan,
    FrontierNode,
    plan_frontier_ir,
)
from vyre.policies.journal import decide
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.app.kernels.kernel import Kernel
    from vyre.app.resident import ResidentArray
    from vyre.app.sequences.sequence import WorkServices
    from vyre.app.session import Session

Arrays: TypeAlias = "dict[str, ResidentArray]"

FRONTIER_BYTES: Final = 6
"""The bytes of a node in a frontier, at most: a mark, a place in the request, a share of the columns of blocks."""
CONTROL_BYTES: Final = 64
"""The bytes of a frontier, at most, whatever the number of nodes."""
DISTANCE_BYTES: Final = 4


@frozen
class FrontierQuery:
    """A query: it follows edges of the kinds ``along`` (None: of all), from the sources that a call gives.

    ``after`` names queries whose reached nodes are sources too; they run first, and nothing goes to the host between.
    ``domain`` is the data that the query is about; queries that run together are listed in its order.
    """

    name: str
    along: Kinds | None = None
    after: Iterable[str] = ()
    domain: FrontierDomain = FrontierDomain.DATAFLOW


class Reached(NamedTuple):
    """The result of a frontier.

    ``distances`` (u32): for each node the least number of edges from a source, ``UNREACHED`` where there is no path.
    ``run`` tells how many rounds ran, a round for each level and one in which nothing was reached, and by what.
    """

    distances: Words
    run: FixedPointResult | None


class AnalysisResult(NamedTuple):
    """The columns of an analysis that were read, by the name of their query, and a run for each group of queries."""

    distances: Mapping[str, Words]
    runs: tuple[FixedPointResult, ...]


class Components(NamedTuple):
    """The components of a graph whose edges lead both ways.

    ``labels`` (u32): for each node the least id of its component.  ``run`` tells how many rounds ran, and by what.
    """

    labels: Words
    run: FixedPointResult | None

    @property
    def number(self) -> int:
        """Returns the number of components."""
        return int(np.unique(self.labels).size)


class FactSession(Closing):
    """A graph in the memory of a session's device: ``with FactSession(session, graph) as facts: facts.reach([7])``.

    The graph is uploaded once.  A call uploads the sources, runs without the host between two levels, and reads back
    the columns that are asked for and 8 bytes; on an emulated or real GPU that is one submission for each group of
    queries.  Calls of several threads run one after the other.

    ``arrays`` holds the resident columns for kernels of one's own: ``rows``, ``targets``, ``edge_kinds``,
    ``node_kinds`` and ``payload``.  ``budget``: the most bytes of device memory that graph, frontiers and columns may
    take; None: no limit.  Raises ``PlanError`` where it does not hold them, ``InvalidConfig`` for an invalid one, and
    ``UnsupportedFeature`` on a backend without resident memory.
    """

    def __init__(self, session: Session, graph: FactGraph, *, budget: int | None = None) -> None:
        expect("graph", graph, FactGraph, "a FactGraph, which fact_graph makes", InvalidInput)
        if budget is not None:
            expect("budget", budget, int, "a number of bytes, or None")
            if not 0 < budget <= U64_MAX:
                raise InvalidConfig(f"budget={shown(budget)}", fix="pass a number of bytes above 0, or None.")
        self.graph: Final = graph
        self._session = session
        self._services: WorkServices = session._work_services()
        self._budget = U64_MAX if budget is None else budget
        self._lock = process_lock()
        self._stack = ExitStack()
        self._usual: dict[bool, FrontierAnalysis] = {}
        self._components: dict[bool, _BoundComponents] = {}
        rows = graph.rows
        columns: dict[str, npt.NDArray[Any]] = {"rows": rows.rows, "targets": rows.targets, "edge_kinds": rows.kinds}
        columns |= {"node_kinds": graph.node_kinds, "payload": graph.payload}
        with self._stack.pop_all() as stack:
            self.arrays: Final[Mapping[str, ResidentArray]] = {
                name: stack.enter_context(session.resident(each, label=name)) for name, each in columns.items()
            }
            self._stack = stack.pop_all()
        self._counters = UploadReuse(cold_uploads=1, upload_bytes=graph.nbytes)

    @property
    def counters(self) -> UploadReuse:
        """Returns the uploads of the graph so far: one, and for each call the bytes that it did not upload again."""
        with self._lock, sealed:
            return self._counters

    def analysis(self, queries: Iterable[FrontierQuery], *, executor: ExecutorName | None = None) -> FrontierAnalysis:
        """Prepares queries that run together: calling the result with sources runs them.

        ``executor`` forces what repeats the levels, as for ``Session.fixpoint``.  Raises ``InvalidInput`` for queries
        that are none, and ``PlanError``: ``DuplicateNode`` and ``UnknownDependencyNode`` for names, here numbered in
        order, ``Cycle`` for queries that wait for each other, and what says that the budget is too small.
        """
        with self._lock, sealed:
            self._check_open()
            analysis = FrontierAnalysis(self, tuple(items_of("queries", queries)), executor)
            self._stack.callback(analysis.close)
            return analysis

    def reach(self, sources: npt.ArrayLike, along: Kinds | None = None, *, levels: int | None = None) -> Reached:
        """Returns how far each node is from the nearest of ``sources``, which are ids, over edges of the given kinds.

        ``along``: members of ``EdgeKind`` or numbers, one or several; None: all.  ``levels``: the greatest distance
        that is looked at; None: no limit.  O(nodes + edges), and O(nodes / 2048) for each level besides.

        Raises ``InvalidInput`` for ids that no node has, and for kinds and levels that are none, and what a dispatch
        raises.
        """
        mask = kinds_mask(along)
        typed = mask != ALL_KINDS
        with self._lock, sealed:
            self._check_open()
            if typed not in self._usual:
                self._usual[typed] = self.analysis([FrontierQuery("reach", along=mask_kinds(mask))])
            distances = self._usual[typed]._run({"reach": sources}, levels, ("reach",), {"reach": mask})
            return Reached(distances.distances["reach"], distances.runs[0] if distances.runs else None)

    def components(self, along: Kinds | None = None) -> Components:
        """Returns the components of the graph, where edges of the given kinds, or all, lead both ways.

        The label of a node is the least id of its component.  Nodes take the least label of their neighbours, labels
        are followed like pointers, and both are repeated until nothing changes.  Raises ``PlanError`` where the budget
        holds no two columns beside the graph, and what a dispatch raises.
        """
        mask = kinds_mask(along)
        with self._lock, sealed:
            self._check_open()
            if not self.graph.nodes:
                return Components(np.zeros(0, np.uint32), None)
            typed = mask != ALL_KINDS
            if typed not in self._components:
                self._components[typed] = self._bound_components(typed)
            bound = self._components[typed]
            if typed:
                bound.kinds.upload(np.array([mask], np.uint32))
            ended = bound.run()
            self._used()
            return Components(self.graph.node_ids[bound.pointers.download()], ended)

    def close(self) -> None:
        """Frees the memory of the graph and of its analyses."""
        with self._lock, sealed:
            self._usual.clear()
            self._components.clear()
            self._stack.close()

    def __repr__(self) -> str:
        return f"<FactSession of {self.graph!r} on {self._session.backend}>"

    # ---------------------------------------------------------------- for analyses
    def _check_open(self) -> None:
        if self.arrays["rows"].closed:
            raise InvalidResource("the session of this graph is closed", fix="make a FactSession anew.")

    def _used(self) -> None:
        seen = self._counters
        avoided = seen.avoided_upload_bytes + self.graph.nbytes
        self._counters = seen._replace(warm_reuses=seen.warm_reuses + 1, avoided_upload_bytes=avoided)

    def _zeros(self, stack: ExitStack, label: str, count: int, dtype: type[np.unsignedinteger[Any]]) -> ResidentArray:
        return stack.enter_context(self._session.resident(np.zeros(count, dtype), label=label))

    def _edges(self) -> Arrays:
        return {name: self.arrays[name] for name in ("rows", "targets", "edge_kinds")}

    def _check_budget(self, nbytes: int) -> None:
        """Raises ``PlanError`` if the budget does not hold so many bytes beside the graph."""
        required = self.graph.nbytes + nbytes
        if required > self._budget:
            raise PlanError(
                "OverBudget",
                fix="give the session more memory, or ask for fewer queries at once.",
                required_bytes=required,
                budget_bytes=self._budget,
            )

    def _bound_components(self, typed: bool) -> _BoundComponents:
        nodes = self.graph.nodes
        self._check_budget(2 * DISTANCE_BYTES * nodes + 8)
        pointers = self._zeros(self._stack, "pointers", nodes, np.uint32)
        lower = self._zeros(self._stack, "lower", nodes, np.uint32)
        changed = self._zeros(self._stack, "changed", 1, np.uint32)
        kinds = self._zeros(self._stack, "kinds", 1, np.uint32)
        edges = {"kinds": kinds, **self._edges(), "pointers": pointers, "lower": lower}
        pull = Step(kernels.pull_along(typed).over(nodes), edges)
        shorten = Step(kernels.shorten.over(nodes), {"lower": lower, "pointers": pointers})
        take_over = Step(kernels.take_over.over(nodes), {"pointers": pointers, "lower": lower})
        alone = Step(kernels.point_to_itself.over(nodes), {"pointers": pointers, "lower": lower})
        hook = Step(kernels.hook_along(typed).over(nodes), {**edges, "changed": changed})
        run = self._session.fixpoint(
            [hook, shorten, take_over],
            first=[alone, pull, shorten, pull, shorten, take_over],
            changed=changed,
            limit=min(nodes + 1, U32_MAX),
        )
        return _BoundComponents(run, kinds, pointers)


class _BoundComponents(NamedTuple):
    """A search for components: ``kinds`` are the edges that it follows, ``pointers`` nodes that stand for others."""

    run: FixedPoint
    kinds: ResidentArray
    pointers: ResidentArray


class AnalysisPlan(NamedTuple):
    """Groups of queries by number, those of a group at once, and the bytes of graph, columns and widest group."""

    groups: tuple[tuple[int, ...], ...]
    required_bytes: int


class FrontierAnalysis:
    """Queries with all their memory: call it with sources, ``analysis({"calls": [7], "uses": [3, 9]})``.

    ``plan`` has the groups of queries that run at once, and their memory; ``waves`` those that could run at once with
    memory enough.  Both are None for a graph without nodes.  ``resident(name)`` is the column of distances
    that the last call left on the device.
    """

    def __init__(self, facts: FactSession, queries: tuple[FrontierQuery, ...], executor: ExecutorName | None) -> None:
        if not queries:
            raise InvalidInput("an analysis without queries", fix="pass at least one FrontierQuery.")
        for query in queries:
            expect("queries", query, FrontierQuery, "FrontierQuery objects", InvalidInput)
        self.queries: Final = queries
        self._facts = facts
        self._masks = {query.name: kinds_mask(query.along) for query in queries}
        self._stack = ExitStack()
        self._distances: Arrays = {}
        self._groups: list[_Group] = []
        self.waves: FrontierIrPlan | None = None
        self.plan: AnalysisPlan | None = None
        if facts.graph.nodes:
            self._prepare(executor)

    def __call__(
        self, sources: Mapping[str, npt.ArrayLike], *, levels: int | None = None, read: Iterable[str] | None = None
    ) -> AnalysisResult:
        """Runs all queries, and returns the columns of those that ``read`` names (None: all).

        ``sources``: ids of nodes by the name of the query; queries that it leaves out start from those that they are
        ``after``.  ``levels`` as for ``FactSession.reach``.  Raises as that does, and ``InvalidInput`` for names that
        no query has.
        """
        names = [query.name for query in self.queries] if read is None else list(items_of("read", read))
        return self._run(sources, levels, names, self._masks)

    def resident(self, name: str) -> ResidentArray:
        """Returns the column of distances of a query on the device, for kernels of one's own.

        Raises ``InvalidInput`` for a name that no query has, and for a graph without nodes.
        """
        self._check_names("name", [name])
        if name not in self._distances:
            raise InvalidInput("a graph without nodes has no columns on the device", fix="ask a graph with nodes.")
        return self._distances[name]

    def close(self) -> None:
        """Frees the memory of the frontiers and their columns."""
        with self._facts._lock, sealed:
            self._groups.clear()
            self._stack.close()

    def __repr__(self) -> str:
        return f"<FrontierAnalysis {' '.join(query.name for query in self.queries)} of {self._facts.graph!r}>"

    # ---------------------------------------------------------------- running
    def _run(
        self, sources: Mapping[str, npt.ArrayLike], levels: int | None, read: Iterable[str], masks: Mapping[str, int]
    ) -> AnalysisResult:
        facts = self._facts
        expect("sources", sources, Mapping, "a mapping from names of queries to ids", InvalidInput)
        self._check_names("sources", sources)
        self._check_names("read", read)
        most = U32_MAX - 1 if levels is None else levels
        expect("levels", most, int, "a number of levels, or None", InvalidInput)
        if not 0 <= most < U32_MAX:
            raise InvalidInput(f"levels={shown(levels)}", fix=f"pass a number from 0 to {U32_MAX - 1}, or None.")
        places = {name: np.unique(facts.graph.places_of(ids, f"sources of {name}")) for name, ids in sources.items()}
        with facts._lock, sealed:
            facts._check_open()
            if not facts.graph.nodes:
                return AnalysisResult({name: np.zeros(0, np.uint32) for name in read}, ())
            if not self._groups:
                raise InvalidResource("the analysis is closed", fix="prepare it anew.")
            runs = []
            for group in self._groups:
                for name, request in group.requests:
                    from_host = places.get(name, _NOBODY)
                    header = np.array([from_host.size, masks[name], most], np.uint32)
                    request.upload(np.concatenate((header, from_host)))
                runs.append(group.run())
            facts._used()
            return AnalysisResult({name: self._distances[name].download() for name in read}, tuple(runs))

    def _check_names(self, what: str, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._masks:
                known = ", ".join(self._masks)
                raise InvalidInput(f"{what} names {shown(name)}, which is no query", fix=f"use one of {known}.")

    # ---------------------------------------------------------------- preparing
    def _prepare(self, executor: ExecutorName | None) -> None:
        facts = self._facts
        with self._stack.pop_all() as stack:
            self.plan = plan = self._planned()
            groups = plan.groups
            for query in self.queries:
                self._distances[query.name] = facts._zeros(stack, query.name, facts.graph.nodes, np.uint32)
            slots = [self._slot(stack) for _ in range(max(map(len, groups)))]
            changed = facts._zeros(stack, "changed", 1, np.uint32)
            self._groups += [
                self._group([self.queries[place] for place in group], slots, changed, executor) for group in groups
            ]
            self._stack = stack.pop_all()

    def _planned(self) -> AnalysisPlan:
        """Decides which queries run together: of a wave, as many as the budget holds.  Raises ``PlanError``."""
        facts, nodes = self._facts, self._facts.graph.nodes
        numbers = {query.name: place for place, query in reversed(list(enumerate(self.queries)))}
        unknown = len(self.queries)
        ir = FrontierIr(
            nodes=tuple(FrontierNode(numbers[query.name], query.domain, nodes) for query in self.queries),
            dependencies=tuple(
                (numbers.get(before, unknown), numbers[query.name])
                for query in self.queries
                for before in items_of("after", query.after)
            ),
        )
        self.waves = decide(facts._services.decisions, plan_frontier_ir, ir)
        columns, frontier = DISTANCE_BYTES * nodes * len(self.queries), FRONTIER_BYTES * nodes + CONTROL_BYTES
        facts._check_budget(columns + frontier)
        beside = facts.graph.nbytes + columns
        most = (facts._budget - beside) // frontier
        groups = tuple(
            wave.node_ids[start : start + most]
            for wave in self.waves.waves
            for start in range(0, len(wave.node_ids), most)
        )
        return AnalysisPlan(groups, beside + frontier * max(map(len, groups)))

    def _slot(self, stack: ExitStack) -> Arrays:
        """Returns the memory of one frontier; queries of different groups use it one after the other."""
        nodes, zeros = self._facts.graph.nodes, self._facts._zeros
        blocks = _blocks(nodes)
        return {
            "request": zeros(stack, "request", kernels.HEADER + nodes, np.uint32),
            "marks": zeros(stack, "marks", nodes, np.uint8),
            "live": zeros(stack, "live", blocks, np.uint32),
            "woken": zeros(stack, "woken", blocks, np.uint32),
            "fresh": zeros(stack, "fresh", blocks, np.uint32),
            "depth": zeros(stack, "depth", 1, np.uint32),
        }

    def _group(
        self, queries: list[FrontierQuery], slots: list[Arrays], changed: ResidentArray, executor: ExecutorName | None
    ) -> _Group:
        facts = self._facts
        nodes, blocks = facts.graph.nodes, _blocks(facts.graph.nodes)
        every_block = blocks * kernels.LANES
        begin: list[Step] = []
        rounds: tuple[list[Step], list[Step], list[Step]] = ([], [], [])
        for query, slot in zip(queries, slots, strict=False):
            arrays = {**slot, "distances": self._distances[query.name], "changed": changed, **facts._edges()}

            begin += [_step(kernels.clear, nodes, arrays), _step(kernels.seed, min(nodes, _SEEDING), arrays)]
            for name in query.after:
                begin.append(_step(kernels.seed_reached, nodes, {**arrays, "earlier": self._distances[name]}))
            expand = kernels.expand_along(self._masks[query.name] != ALL_KINDS)
            rounds[0].append(_step(expand, every_block, arrays))
            rounds[1].append(_step(kernels.settle, every_block, arrays))
            rounds[2].append(_step(kernels.advance, blocks, arrays))
        run = facts._session.fixpoint(
            [each for part in rounds for each in part],
            first=begin,
            changed=changed,
            limit=min(nodes + 1, U32_MAX),
            executor=executor,
        )
        requests = [(query.name, slot["request"]) for query, slot in zip(queries, slots, strict=False)]
        return _Group(requests, run)


class _Group(NamedTuple):
    """Queries that run at once: where each takes its request from, and what runs them."""

    requests: list[tuple[str, ResidentArray]]
    run: Callable[[], FixedPointResult]


_NOBODY: Final[Words] = np.zeros(0, np.uint32)
_SEEDING: Final = 4096
"""The lanes that take sources, at most."""


def _step(kernel: Kernel[...], lanes: int, arrays: Arrays) -> Step:
    """Returns the launch of a kernel with those of the arrays that it names."""
    return Step(kernel.over(lanes), {buffer.name: arrays[buffer.name] for buffer in kernel.program.abi_buffers})


def _blocks(nodes: int) -> int:
    return -(-nodes // kernels.BLOCK)


def mask_kinds(mask: int) -> list[int]:
    """Returns the numbers of the kinds in a set of bits."""
    return [kind for kind in range(mask.bit_length()) if mask >> kind & 1]
