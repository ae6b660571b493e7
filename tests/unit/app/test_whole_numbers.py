"""Every argument that is a whole number takes those of Python, NumPy and enumerations, and refuses all else alike."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre import InOut, Out, Step, VyreError, u32
from vyre.app.persistent.tickets import checked_timeout
from vyre.domain.host_options import host_options
from vyre.graphs import FactSession, fact_graph
from vyre.graphs.egraph import EGraph


class Few(enum.IntEnum):
    THREE = 3


THREES: Final = [np.int64(3), np.uint8(3), np.prod([3, 1]), Few.THREE]
NO_NUMBERS: Final = [True, np.bool_(True), 3.5, np.float32(3), "3", [3]]


@vyre.kernel(workgroup=4)
def count_down(x: InOut[u32], changed: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(x) and x[i] > 0:
        x[i] = x[i] - 1
        changed[0] = 1


@vyre.kernel(workgroup=4)
def numbers(y: Out[u32]) -> None:
    y[vyre.global_id()] = vyre.global_id()


X: Final = np.arange(6, dtype=np.uint32)


def _fixed_point(session: vyre.Session, number: Any) -> object:
    with session.resident(X) as x, session.resident(np.zeros(1, np.uint32)) as changed:
        steps = [Step(count_down, {"x": x, "changed": changed})]
        return session.fixpoint(steps, changed=changed, limit=number)().iterations


def _slots(session: vyre.Session, number: Any) -> object:
    with session.resident(X) as slots, session.resident(np.array([1, 2], np.uint32)) as lengths:
        found = session.download_slots(slots, lengths, capacity=number, most_packed=number)
        return [each.tolist() for each in found]


def _resident(session: vyre.Session, number: Any) -> object:
    with session.resident(number) as array:
        return array.download().tolist()


def _journal(_: vyre.Session, number: Any) -> object:
    return vyre.DecisionJournal(number)._kept.maxlen


def _batch(session: vyre.Session, number: Any) -> object:
    with vyre.open("cuda-machine", cache=False) as other, other.persistent(count_down) as jobs:
        return jobs.submit_many([np.stack([X] * 4), np.zeros(1, np.uint32)])[number].result()["x"].tolist()


def _costs(session: vyre.Session, number: Any) -> object:
    graph = EGraph()
    term = graph.add("a")
    cheapest = graph.close(session).extract(term, {"a": number})
    return cheapest is not None and cheapest.cost


def _kinds(session: vyre.Session, number: Any) -> object:
    graph = fact_graph(number, [0, 1], [1, 2], edge_kinds=number)
    with FactSession(session, graph) as facts:
        return facts.reach([0], number).distances.tolist()


TAKE_A_NUMBER: Final[dict[str, Callable[[vyre.Session, Any], object]]] = {
    "fixpoint": _fixed_point,
    "download_slots": _slots,
    "journal": _journal,
    "batch": _batch,
    "resident_cache": lambda session, number: session.resident_cache(number).budget,
    "resident": _resident,
    "temporary": lambda session, number: session.temporary(u32, number).shape,
    "output_counts": lambda session, number: session.dispatch(numbers, {}, output_counts={"y": number})["y"].tolist(),
    "costs": _costs,
    "kinds": _kinds,
    "threads": lambda _, number: host_options(number).threads,
    "affinity": lambda _, number: host_options(affinity=[number]).affinity,
    "timeout": lambda _, number: checked_timeout(number),
    "timeout_s": lambda _, number: vyre.DispatchConfig(timeout_s=number).timeout_s,
}


@pytest.fixture(scope="module")
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference", cache=False) as opened:
        yield opened


@pytest.mark.parametrize("name", TAKE_A_NUMBER)
def test_every_whole_number_means_that_number(session: vyre.Session, name: str) -> None:
    call = TAKE_A_NUMBER[name]
    wanted = call(session, 3)
    for three in THREES:
        assert call(session, three) == wanted, repr(three)


@pytest.mark.parametrize("name", [name for name in TAKE_A_NUMBER if not name.startswith("timeout")])
def test_nothing_else_is_one(session: vyre.Session, name: str) -> None:
    for wrong in NO_NUMBERS:
        if (name, wrong) in (("resident", [3]), ("kinds", [3])):  # data, and one kind for each edge
            continue
        with pytest.raises(VyreError, match=r"Fix: "):
            TAKE_A_NUMBER[name](session, wrong)


def test_an_array_without_axes_is_data_of_a_resident_array(session: vyre.Session) -> None:
    with session.resident(np.array(3)) as array:
        assert (array.shape, array.download().tolist()) == ((), 3)
