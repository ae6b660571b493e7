"""Closes an e-graph under congruence on the backend of a session."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from vyre.app.kernels.kernel import Kernel
from vyre.app.sequences.steps import Step
from vyre.app.session import Session
from vyre.domain.arguments import expect
from vyre.domain.errors import PlanError
from vyre.domain.record import U32_MAX
from vyre.graphs import egraph_kernels as kernels
from vyre.graphs.egraph_closed import CanonicalRows, ClosedEGraph
from vyre.policies.egraphs.egraph_kernels import ClosureInputs, ClosurePlan, KernelPass, plan_closure
from vyre.policies.journal import decide

if TYPE_CHECKING:
    from vyre.app.fixpoint import ExecutorName, FixedPoint, FixedPointResult
    from vyre.app.resident import ResidentArray
    from vyre.graphs.columns import Words
    from vyre.graphs.egraph_terms import Terms

_KERNELS: Final[dict[KernelPass, Kernel[...]]] = {
    KernelPass.CLASS_COMPRESSION: kernels.compress,
    KernelPass.ROW_REKEYING: kernels.rekey,
    KernelPass.ROW_MATCHING: kernels.match,
}
_WORD_BYTES: Final = 4


class Image(NamedTuple):
    """The columns of an e-graph for a device, all u32, with classes numbered from 0.

    ``near`` and ``far``: the class of every row and nothing, and behind them the two sides of the equalities.
    ``labels`` are the classes as the user knows them by their numbers here, ascending, None if they are the same.
    """

    operator: Words
    offset: Words
    child: Words
    near: Words
    far: Words
    class_count: int
    labels: Words | None

    def labelled(self, classes: Words) -> Words:
        """Returns classes as the user knows them."""
        return classes if self.labels is None else self.labels[classes]


def image_of(graph: Terms) -> Image:
    """Returns the columns of an e-graph.  O(n), and O(n log n) where the terms have classes of their own."""
    labels = np.unique(graph.classes) if graph.has_classes else None

    def numbered(classes: Words) -> Words:
        return classes if labels is None else np.searchsorted(labels, classes).astype(np.uint32)

    equalities = numbered(graph.equalities)
    return Image(
        graph.operators,
        graph.offsets,
        numbered(graph.children),
        np.concatenate((numbered(graph.classes), equalities[:, 0])),
        np.concatenate((np.zeros(len(graph), np.uint32), equalities[:, 1])),
        len(graph) if labels is None else len(labels),
        labels,
    )


def close(
    graph: Terms,
    session: Session,
    *,
    rows: bool = True,
    slots: int | None = None,
    executor: ExecutorName | None = None,
    signature_mask: int = U32_MAX,
) -> ClosedEGraph:
    """Returns the closed e-graph; see ``EGraph.close``.

    ``signature_mask`` says which bits of a signature count: with 0 all rows collide.
    """
    expect("session", session, Session, "a session")
    expect("rows", rows, bool, "True or False")
    if slots is not None:
        expect("slots", slots, int, "a number of slots")
    image = image_of(graph)
    count, sides = len(graph), len(image.near)
    services = session._work_services()
    most_groups = services.lease.backend.profile.max_grid_size
    most_items = U32_MAX if most_groups is None else min(most_groups[0] * kernels.LANES, U32_MAX)
    inputs = ClosureInputs(count, image.class_count, sides - count, most_items, slots)
    plan = decide(services.decisions, plan_closure, inputs)
    if count == 0:
        empty = np.zeros(0, np.uint32)
        return ClosedEGraph(graph, plan, empty, 0, None, _rows_of(image, empty, empty, empty))
    with ExitStack() as stack:
        arrays = _on_device(session, image, plan, stack)
        fixed = _rounds(session, arrays, plan, executor, signature_mask)
        rounds, ending = _run(fixed)
        root = arrays["root"].download().view(np.uint32)
        if root[-1]:
            raise PlanError(
                "TableFull",
                fix="give more slots; as many as there are terms always suffice.",
                slots=plan.slots,
                terms=count,
            )
        representatives = root[:-1][image.near[:count]]
        canonical = None
        if rows:
            state = arrays["state"][: count * _WORD_BYTES].download().view(np.uint32)
            child = arrays["child"].download()[: len(image.child)]
            canonical = _rows_of(image, representatives, child, state)
    return ClosedEGraph(graph, plan, image.labelled(representatives), rounds, ending, canonical)


def _on_device(session: Session, image: Image, plan: ClosurePlan, stack: ExitStack) -> dict[str, ResidentArray]:
    """Returns the arrays of the kernels by the names of their parameters; ``stack`` closes them."""
    count, classes, sides = len(image.operator), image.class_count, len(image.near)
    words = {
        "root": classes + 1,
        "drop": classes,
        "signature": count,
        "slot": count,
        "state": sides,
        "table": plan.slots,
        **dict.fromkeys(("renewed", "counted", "gone", "forgotten", "filed", "full"), 1),
    }
    child = image.child if len(image.child) else np.zeros(1, np.uint32)
    columns: dict[str, Any] = {
        "operator": image.operator,
        "offset": image.offset,
        "child": child,
        "near": image.near,
        "far": image.far,
        "changed": np.zeros(1, np.uint32),
        **{name: length * _WORD_BYTES for name, length in words.items()},
    }
    return {
        name: stack.enter_context(session.resident(column, label=f"e-graph {name}")) for name, column in columns.items()
    }


def _rounds(
    session: Session,
    arrays: dict[str, ResidentArray],
    plan: ClosurePlan,
    executor: ExecutorName | None,
    signature_mask: int,
) -> FixedPoint:
    numbers = {"most_gone": plan.most_gone, "mask": signature_mask}
    steps = []
    for wave in plan.waves:
        kernel = _KERNELS[wave.kernel_pass]
        arguments: dict[str, Any] = {**arrays, **numbers, "first": wave.first_item}
        wanted = {buffer.name for buffer in kernel.program.buffers}
        bound = {name: value for name, value in arguments.items() if name in wanted}
        steps.append(Step(kernel.over(wave.item_count), bound))
    return session.fixpoint(steps, changed=arrays["changed"], limit=plan.round_limit, executor=executor)


def _run(fixed: FixedPoint) -> tuple[int, FixedPointResult]:
    """Runs rounds until nothing changes, and returns their number and how the last of them ended.

    Every round but the last unites classes, files a row or shortens a path, so that there is always an end.
    """
    rounds = 0
    while True:
        ending = fixed()
        rounds += ending.iterations
        if ending.converged:
            return rounds, ending


def _rows_of(image: Image, representatives: Words, child: Words, state: Words) -> CanonicalRows:
    """Returns the rows that lead a slot: of equal rows one."""
    terms = np.flatnonzero(state == kernels.LEADER).astype(np.uint32)
    begins = image.offset[:-1].astype(np.int64)[terms]
    arities = image.offset[1:][terms].astype(np.int64) - begins
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(arities)))
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - begins, arities)
    return CanonicalRows(
        terms,
        image.operator[terms],
        offsets.astype(np.uint32),
        image.labelled(child[places]),
        image.labelled(representatives[terms]),
    )
