"""The program of a work queue as an ordinary one: what a dispatch of one's own gets, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre
from support.work_queues import ROLES, Tree, handle_task
from vyre import InvalidConfig, InvalidInput, ProgramBuilder, WorkQueueOverflow, u32

TREE = Tree.of([k // 3 for k in range(39)])


def inputs() -> dict[str, Any]:
    return {"first": TREE.first, "children": TREE.children, "hits": np.zeros(TREE.tasks, np.uint32)}


@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
@pytest.mark.parametrize("grid", [1, 3])
def test_one_dispatch_drains_the_queue(backend: str, grid: int) -> None:
    drain = vyre.drain_program(handle_task, **ROLES)
    queue = drain.inputs(np.zeros(1, np.uint32), TREE.need)
    assert drain.names == queue.keys()
    with vyre.open(backend) as session:
        found = session.dispatch(drain.program, inputs() | queue, grid=grid)
        assert found["hits"].tolist() == [1] * TREE.tasks
        totals = drain.totals(found)
        assert totals == {"processed": TREE.tasks, "pushed": TREE.tasks, "phases": len(TREE.widths)}
        again = session.dispatch(drain.program, inputs() | drain.inputs(np.zeros(1, np.uint32), TREE.need), grid=grid)
        assert again["hits"].tolist() == [1] * TREE.tasks


def test_items_that_find_no_room_are_told() -> None:
    drain = vyre.drain_program(handle_task, **ROLES)
    with vyre.open("reference") as session:
        found = session.dispatch(drain.program, inputs() | drain.inputs(np.zeros(1, np.uint32), 3), grid=1)
    with pytest.raises(WorkQueueOverflow) as lost:
        drain.totals(found)
    assert lost.value.capacity == 3 and lost.value.lost > 0


def test_wrong_items_and_capacities_are_refused() -> None:
    drain = vyre.drain_program(handle_task, **ROLES)
    with pytest.raises(InvalidInput, match="2 items exceed the capacity of 1"):
        drain.inputs(np.zeros(2, np.uint32), 1)
    with pytest.raises(InvalidInput, match="items are float32"):
        drain.inputs(np.zeros(1, np.float32), 1)
    with pytest.raises(InvalidInput, match="not one of"):
        drain.totals({})
    for capacity in (0, -1, 2**31):
        with pytest.raises(InvalidConfig, match="capacity"):
            drain.inputs(np.zeros(1, np.uint32), capacity)
    with pytest.raises(InvalidConfig, match="name of a buffer"):
        vyre.drain_program(handle_task, items="items", pushed="pushed", count=3)  # type: ignore[arg-type]


def test_a_program_whose_results_depend_on_the_order_is_refused_with_the_reason() -> None:
    with ProgramBuilder("numbers", workgroup=32) as p:
        items, pushed, count = p.input("items", u32), p.inout("pushed", u32), p.inout("count", u32)
        out = p.inout("out", u32)
        lane = p.global_id()
        with p.if_(lane < items.length):
            place = count.atomic_add(0, 1)
            pushed[place] = items[lane]
            out[items[lane]] = lane
    with pytest.raises(InvalidInput, match="cannot drain a work queue"):
        vyre.drain_program(p.build(), **ROLES)
