"""Random trees of tasks: every task is processed exactly once, whatever the capacity, the chunks and the backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.fixed_points import keeping_session
from support.llvm import NEEDS_LLVM
from support.work_queues import Tree, tree_queue
from vyre import Session, WorkQueueOverflow

BACKENDS: Final = ["reference", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]


@pytest.fixture(scope="module", params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with keeping_session(request.param) as opened:
        yield opened


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    tasks = draw(st.integers(1, 60))
    return Tree.of([draw(st.integers(0, child)) for child in range(tasks - 1)])


@settings(max_examples=20)
@given(tree=trees(), spare=st.integers(-2, 3), most=st.none() | st.integers(1, 20))
def test_every_task_is_processed_once_or_the_overflow_is_told(
    session: Session, tree: Tree, spare: int, most: int | None
) -> None:
    """Chunks give slots back in the middle of a generation, so that fewer may do."""
    capacity = max(tree.need + spare, 1)
    found = tree_queue(session, tree, capacity, items_per_launch=most)
    try:
        result = found.queue(found.start)
    except WorkQueueOverflow as error:
        assert capacity < tree.need
        assert error.lost > 0
        assert found.hits.download().max() <= 1
        return
    assert capacity >= tree.need or most is not None
    assert result.processed == result.pushed == tree.tasks
    assert result.launches == (1 if most is None else -(-tree.tasks // most))
    np.testing.assert_array_equal(found.hits.download(), np.ones(tree.tasks, np.uint32))


@settings(max_examples=20)
@given(tree=trees(), slots=st.sampled_from([2, 4, 8, 16, 64]), most=st.none() | st.integers(1, 20))
def test_a_ring_takes_every_task_once_or_tells_the_overflow(
    session: Session, tree: Tree, slots: int, most: int | None
) -> None:
    found = tree_queue(session, tree, slots, items_per_launch=most, discipline="ring")
    try:
        result = found.queue(found.start)
    except WorkQueueOverflow as error:
        assert slots < tree.tasks
        assert error.lost > 0
        assert found.hits.download().max() <= 1
        return
    assert result.processed == result.pushed == tree.tasks
    assert result.launches == (1 if most is None else -(-tree.tasks // most))
    np.testing.assert_array_equal(found.hits.download(), np.ones(tree.tasks, np.uint32))
