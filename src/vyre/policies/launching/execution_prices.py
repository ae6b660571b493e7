"""What does a batch of launches cost when it is launched plainly, replayed, kept resident or fused?

Units: nanoseconds.  A price is a sum of costs, each multiplied by the number of times it is paid.  A cost that two
prices share cancels when they are compared, with its uncertainty.

A batch is ``batch`` runs of a sequence of ``nodes`` launches.  All are submitted together; only then does the host
wait.  The host submits while the device runs earlier submissions, so a batch takes the longer of two sums: all
submissions and then the last kernel, or the first submission and then all kernels with the gaps between them.  For n
launches these are ``n * launch + kernel`` and ``launch + n * (kernel + launch_gap) - launch_gap``.  In either case a
``round_trip`` is added.

- Plain: a step is a launch.  Beyond its kernel it costs ``max(launch - kernel, launch_gap)``, its net cost.
- Graph: a step is a run.  One submission, changed parameters included, serves all nodes, and the gaps inside are
  smaller.
- Persistent: a step is an item that the resident kernel finds and runs.  The resident kernel is itself launched, so
  setting it up is no cheaper than a launch.
- Fused: a step is a run of fewer launches, each submitted by itself or all together as those of a graph, or whichever
  of the two is cheaper.  Before they have run, the time of their kernels is that of the stages apart, without the
  time of the bytes that no stage has to move any more.

Where the host itself runs the launches, as on processors, or waits for each of them, nothing overlaps
(``Workload.overlaps``): a batch takes the sum of all costs.  A plain launch costs a ``launch`` and its kernel, the wait
included.  All runs of a batch are one graph, which is submitted and awaited once: ``graph_replay`` and a
``graph_replay_node`` for each node, and in each run a ``graph_gap`` and a kernel for each node.

vyre-driver adds up launches as if the host waited for each, and leaves out the gaps between kernels, the time in which
a resident kernel finds an item, and the cost of changed parameters of a graph.

Complexity: O(1), and for fused stages that of ``launch_fusion``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from math import isqrt
from typing import Annotated, Final, NamedTuple, TypeAlias

from vyre.domain.errors import InvalidField, PlanError
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance, root_up, weakest
from vyre.domain.traffic import Traffic, traffic_time
from vyre.policies.record import U32, U32_MAX, IntRange, Reason, record, verdict, why_field
from vyre.policies.stage_fusion.launch_fusion import DataflowInputs, plan_dataflow

Many: TypeAlias = Annotated[int, IntRange(1, U32_MAX)]


class ExecutionMode(Enum):
    """Ways to run the same launches."""

    PLAIN = "plain"
    GRAPH = "graph"
    PERSISTENT = "persistent"
    FUSED = "fused"


@record
class Around:
    """The host time of each batch that no other cost includes, by the way in which launches are submitted.

    ``one_by_one``, and ``listed`` for launches that are submitted together; the others are those of joined stages.  A
    way whose time is None has that of the same launches submitted otherwise, else of the other launches.
    """

    one_by_one: Measured | None = None
    listed: Measured | None = None
    joined_one_by_one: Measured | None = None
    joined_listed: Measured | None = None

    def named(self) -> dict[str, Measured]:
        """Returns the known times by the names of their costs."""
        return {f"around_{f.name}": time for f in fields(self) if (time := getattr(self, f.name)) is not None}


@record
class Fusion:
    """The stages of the sequence, to be joined by ``launch_fusion``.

    ``kernel`` is the mean device time of a launch of joined stages; None before one has run.  Then it is computed from
    ``apart`` and ``joined``, the traffic of all launches of a run as they are and joined: what the stages take beyond
    the time of their traffic, the joined stages take too, and to that comes the time of their own traffic.  Where
    nobody timed traffic on the device, or stages take less time than theirs, all of it counts as traffic, which then
    shrinks in proportion.  Without ``apart`` and ``joined`` nothing is saved.
    ``build`` is the time to compile the joined stages; None means that they are compiled.  ``together`` says that the
    launches of joined stages are submitted together, as a graph, and not one by one; None: as is cheaper.  ``launched``
    is that of a ``Workload``.
    """

    stages: DataflowInputs
    kernel: Measured | None = None
    build: Measured | None = None
    together: bool | None = False
    launched: Measured | None = None
    apart: Traffic | None = None
    joined: Traffic | None = None


@record
class Workload:
    """A batch, and how often it comes: ``batch`` runs of ``nodes`` launches, ``repeats`` times.

    - ``kernel``: mean device time of a launch.
    - ``resident_kernel``: device time of an item of the resident kernel; None means that of a launch.
    - ``recorded``: whether a graph of the sequence exists.
    - ``changed_nodes``: number of nodes whose parameters change before every replay.
    - ``fusion``: None if the stages are unknown or must stay apart.
    - ``overlaps``: the host submits while the device executes; False: it runs the launches itself, or awaits each.
    - ``launched``: time of a launch by itself with its kernel, as runs took it that launched so; it is used where
      nothing overlaps.  None: the sum of the two.
    - ``around``: host time of each batch that no other cost includes.
    """

    nodes: Many
    batch: Many
    repeats: Many
    kernel: Measured | None
    resident_kernel: Measured | None = None
    recorded: bool = False
    changed_nodes: U32 = 0
    fusion: Fusion | None = None
    overlaps: bool = True
    launched: Measured | None = None
    around: Around = Around()

    def __post_init__(self) -> None:
        for field, holds, expected in (
            ("batch", self.launches <= U32_MAX, f"a number of runs with at most {U32_MAX} launches in all"),
            ("changed_nodes", self.changed_nodes <= self.nodes, f"at most {self.nodes}, the number of nodes"),
            ("fusion", self._stages in (None, self.nodes), f"a fusion of {self.nodes} stages, one for each node"),
        ):
            if not holds:
                raise InvalidField(record="Workload", field=field, value=getattr(self, field), expected=expected)

    @property
    def launches(self) -> int:
        """Number of launches of a batch."""
        return self.nodes * self.batch

    @property
    def _stages(self) -> int | None:
        return None if self.fusion is None else len(self.fusion.stages.stages)


class Term(NamedTuple):
    """A part of a price: ``times`` the cost of this name, which is ``each_ns`` with a standard error of
    ``error_ns``.
    """

    cost: str
    times: int
    each_ns: int
    error_ns: int


@verdict
class Price:
    """The price of all repeats: ``once_ns``, and for each batch ``start_ns`` and ``steps`` times ``step_ns``.

    ``terms`` have the same sum.  ``provenance`` is that of the least trustworthy cost among them.  ``together``: the
    launches of a run are submitted together.
    """

    mode: ExecutionMode
    total_ns: int
    once_ns: int
    start_ns: int
    step_ns: int
    steps: int
    terms: tuple[Term, ...]
    provenance: Provenance
    together: bool = False

    @property
    def batch_ns(self) -> int:
        """Price of one batch in ns."""
        return self.start_ns + self.steps * self.step_ns


@verdict
class Unavailable:
    """A mode without a price.

    ``unknown`` lists the costs that are missing; it is empty if the mode cannot be executed, whatever it costs.
    """

    mode: ExecutionMode
    unknown: tuple[str, ...] = ()
    why: Reason = why_field()


Quote: TypeAlias = Price | Unavailable


@record
class PriceInputs:
    """A workload and the known costs; ``executable`` are the modes besides plain launches that the backend can
    execute.
    """

    workload: Workload
    costs: LaunchCosts
    executable: frozenset[ExecutionMode]


def quote(inputs: PriceInputs) -> tuple[Quote, ...]:
    """Returns, in the order of the modes, a price for every mode that can be executed and whose costs are known."""
    values = _values(inputs)
    return tuple(_quote(mode, inputs, values) for mode in ExecutionMode)


def error_of_difference_ns(one: Price, other: Price) -> int:
    """Returns the standard error of the difference of two prices, rounded up.

    Costs are independent of each other; a cost in both prices counts by the difference of its multiples.
    """
    times: dict[str, int] = {term.cost: term.times for term in one.terms}
    for term in other.terms:
        times[term.cost] = times.get(term.cost, 0) - term.times
    errors = {term.cost: term.error_ns for term in (*one.terms, *other.terms)}
    square = sum((count * errors[cost]) ** 2 for cost, count in times.items())
    return isqrt(square - 1) + 1 if square else 0


_Values: TypeAlias = dict[str, Measured]
_Sum: TypeAlias = dict[str, int]
"""Each cost, and how many times it is paid."""


_ROUND_TRIP: Final[_Sum] = {"round_trip": 1}
_EACH, _LISTED, _JOINED_EACH, _JOINED_LISTED = (f"around_{field.name}" for field in fields(Around))
_AROUND: Final = {
    (False, False): (_EACH, _LISTED, _JOINED_EACH, _JOINED_LISTED),
    (False, True): (_LISTED, _EACH, _JOINED_LISTED, _JOINED_EACH),
    (True, False): (_JOINED_EACH, _EACH, _JOINED_LISTED, _LISTED),
    (True, True): (_JOINED_LISTED, _LISTED, _JOINED_EACH, _EACH),
}
"""The costs of what is around a batch, by whether stages are joined and submitted together, the nearest first."""


class _Way(NamedTuple):
    """A way through a batch: the costs of each step, and those before or after all steps."""

    step: _Sum
    start: _Sum


class _Shape(NamedTuple):
    """A mode in costs: ``once``, and in each batch what it costs ``always`` and the longest of ``ways`` in ``steps``
    steps.

    The start costs at least ``floor``, if there is one.
    """

    ways: tuple[_Way, ...]
    steps: int
    once: _Sum
    floor: _Sum
    always: _Sum = _ROUND_TRIP
    together: bool = False

    def costs(self) -> dict[str, None]:
        """Returns the names of all costs that may be in the price, each once."""
        ways = (part for way in self.ways for part in way)
        return dict.fromkeys(cost for part in (self.always, *ways, self.once, self.floor) for cost in part)


def _side_by_side(host: _Sum, device: _Sum) -> tuple[_Way, ...]:
    """Returns the two ways of steps in which the host submits and the device executes at the same time."""
    return _Way(host, device), _Way(device | {"launch_gap": 1}, host | {"launch_gap": -1})


def _plain(workload: Workload) -> _Shape:
    if not workload.overlaps:
        each = {"launch": 1, "kernel": 1} if workload.launched is None else {"launched": 1}
        return _Shape((_Way(each, {}),), workload.launches, {}, {}, {})
    return _Shape(_side_by_side({"launch": 1}, {"kernel": 1}), workload.launches, {}, {})


def _graph(workload: Workload) -> _Shape:
    nodes, changed = workload.nodes, workload.changed_nodes
    host = {"graph_replay": 1, "graph_replay_node": nodes}
    if changed:
        host |= {"graph_update": 1, "graph_update_node": changed}
    once = {} if workload.recorded else {"graph_record": 1, "graph_record_node": nodes}
    if not workload.overlaps:
        return _listed(host, {"kernel": nodes}, nodes, workload.batch, once)
    ways = _side_by_side(host, {"kernel": nodes, "graph_gap": nodes - 1})
    return _Shape(ways, workload.batch, once, {}, together=True)


def _listed(host: _Sum, kernels: _Sum, nodes: int, batch: int, once: _Sum) -> _Shape:
    """Returns the shape of a graph of all runs of a batch, which the host submits once and awaits."""
    return _Shape((_Way(kernels | {"graph_gap": nodes}, host),), batch, once, {}, together=True)


def _persistent(workload: Workload) -> _Shape:
    kernel = "kernel" if workload.resident_kernel is None else "resident_kernel"
    items = _Way({kernel: 1, "persistent_poll": 1}, {"persistent_setup": 1})
    return _Shape((items,), workload.launches, {}, {"launch": 1})


def _fused(workload: Workload) -> tuple[_Shape, ...] | Reason:
    """Returns the shapes of joined stages: submitted one by one, together, or both."""
    fusion, nodes = workload.fusion, workload.nodes
    if fusion is None:
        return Reason("nothing is known of stages that could be joined")
    try:
        launches = plan_dataflow(fusion.stages).launches.launch_count
    except PlanError as error:
        return Reason("the stages cannot be joined: {}", (error.message,))
    if launches == nodes:
        return Reason("none of the {} stages can be joined to the one before", (nodes,))
    if fusion.kernel is None and (fusion.apart is None or fusion.joined is None):
        device, last = {"kernel": nodes}, {"kernel": -(-nodes // launches)}
    else:
        device, last = {"fused_kernel": launches}, {"fused_kernel": 1}
    shapes = []
    if not fusion.together:
        shapes.append(_fused_apart(workload, fusion, launches, device, last))
    if fusion.together is not False:
        shapes.append(_fused_together(workload, fusion, launches, device))
    return tuple(shapes)


def _fused_apart(workload: Workload, fusion: Fusion, launches: int, device: _Sum, last: _Sum) -> _Shape:
    once = {} if fusion.build is None else {"fused_build": 1}
    if not workload.overlaps:
        if once:
            once |= {"bind": launches}
        each = {"launch": launches} | device if fusion.launched is None else {"fused_launched": launches}
        return _Shape((_Way(each, {}),), workload.batch, once, {}, {})
    submissions = _Way({"launch": launches}, last)
    kernels = _Way(device | {"launch_gap": launches}, {"launch": 1, "launch_gap": -1})
    return _Shape((submissions, kernels), workload.batch, once, {})


def _fused_together(workload: Workload, fusion: Fusion, launches: int, device: _Sum) -> _Shape:
    once = {} if fusion.build is None else {"fused_build": 1}
    host = {"graph_replay": 1, "graph_replay_node": launches}
    if not workload.recorded or once:
        once |= {"graph_record": 1, "graph_record_node": launches}
    if not workload.overlaps:
        return _listed(host, device, launches, workload.batch, once)
    ways = _side_by_side(host, device | {"graph_gap": launches - 1})
    return _Shape(ways, workload.batch, once, {}, together=True)


_SHAPES: Final[dict[ExecutionMode, Callable[[Workload], _Shape | tuple[_Shape, ...] | Reason]]] = {
    ExecutionMode.PLAIN: _plain,
    ExecutionMode.GRAPH: _graph,
    ExecutionMode.PERSISTENT: _persistent,
    ExecutionMode.FUSED: _fused,
}


def _values(inputs: PriceInputs) -> _Values:
    """Returns all known costs by name."""
    workload, fusion = inputs.workload, inputs.workload.fusion
    of_workload = {
        "kernel": workload.kernel,
        "resident_kernel": workload.resident_kernel,
        "fused_kernel": None if fusion is None else fusion.kernel or _expected(inputs, fusion),
        "launched": workload.launched,
        "fused_launched": None if fusion is None else fusion.launched,
        "fused_build": None if fusion is None else fusion.build,
    }
    known = {name: value for name, value in of_workload.items() if value is not None}
    return inputs.costs.known() | known | workload.around.named()


def _expected(inputs: PriceInputs, fusion: Fusion) -> Measured | None:
    """Returns the mean device time of launches of joined stages that have not run, or None where nothing tells it."""
    kernel, before, after = inputs.workload.kernel, fusion.apart, fusion.joined
    if kernel is None or before is None or after is None:
        return None
    try:
        launches = plan_dataflow(fusion.stages).launches.launch_count
    except PlanError:
        return None
    whole, error = (inputs.workload.nodes * ns for ns in (kernel.median_ns, kernel.standard_error_ns))
    usual, left = traffic_time(before, inputs.costs), traffic_time(after, inputs.costs)
    if usual is None or left is None:
        now, then, traffic = before.moved_nbytes, after.moved_nbytes, whole
    else:
        now, then, traffic = usual.median_ns, left.median_ns, min(whole, usual.median_ns)
        error = root_up(error**2 + usual.standard_error_ns**2 + left.standard_error_ns**2)
    ns = whole - traffic + traffic * min(now, then) // max(1, now)
    return Measured(ns // launches, error // launches, error // launches, 0, Provenance.ASSUMED)


def _quote(mode: ExecutionMode, inputs: PriceInputs, values: _Values) -> Quote:
    if mode is not ExecutionMode.PLAIN and mode not in inputs.executable:
        return Unavailable(mode, why=Reason("the backend does not execute it"))
    answer = _SHAPES[mode](inputs.workload)
    if isinstance(answer, Reason):
        return Unavailable(mode, why=answer)
    shapes = (answer,) if isinstance(answer, _Shape) else answer
    missing = [tuple(cost for cost in shape.costs() if cost not in values) for shape in shapes]
    if unknown := min(missing, key=len):
        return Unavailable(mode, unknown, Reason("unknown: {}", (", ".join(unknown),)))
    prices = [
        _price(mode, shape, inputs.workload, values)
        for shape, without in zip(shapes, missing, strict=True)
        if not without
    ]
    return min(prices, key=lambda price: price.total_ns)


def _around(mode: ExecutionMode, shape: _Shape, values: _Values) -> _Sum:
    """Returns the cost of what is around a batch of this shape, or nothing where none is known."""
    joined, listed = mode is ExecutionMode.FUSED, shape.together
    for name in _AROUND[joined, listed]:
        if name in values:
            return {name: 1}
    return {}


def _price(mode: ExecutionMode, shape: _Shape, workload: Workload, values: _Values) -> Price:
    def ns(paid: _Sum) -> int:
        total = 0
        for cost, times in paid.items():
            total += times * values[cost].median_ns
        return total

    def length(way: _Way) -> tuple[int, int]:
        step = ns(way.step)
        return ns(way.start) + shape.steps * step, step

    step, start = max(shape.ways, key=length)
    around = _around(mode, shape, values)
    start = shape.always | around | (max(start, shape.floor, key=ns) if shape.floor else start)
    paid: _Sum = {}
    for part, times in ((shape.once, 1), (start, workload.repeats), (step, workload.repeats * shape.steps)):
        for cost, count in part.items():
            paid[cost] = paid.get(cost, 0) + times * count
    terms = tuple(
        Term(cost, times, values[cost].median_ns, values[cost].standard_error_ns)
        for cost, times in paid.items()
        if times
    )
    provenance = weakest({values[term.cost].provenance for term in terms})
    return Price(mode, ns(paid), ns(shape.once), ns(start), ns(step), shape.steps, terms, provenance, shape.together)
