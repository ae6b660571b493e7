"""Rows of work queues, convergence loops and the host ring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from vectors.codec import Json, PlanCodec, Row
from vectors.seeds.convergence import plan_convergence
from vectors.seeds.host_ring import HostRing, RingItem
from vectors.seeds.queue_expansion import plan_queue_with_expansion
from vyre.domain.errors import PlanError
from vyre.policies.launching.queueing import plan_backpressure, plan_queue

CODEC: Final = PlanCodec()


def _strict(ring_size: int) -> dict[str, int]:
    return {"ring_size": HostRing(ring_size).ring_size}


def _rounded(ring_size: int) -> dict[str, int]:
    return {"ring_size": HostRing.rounded_up(ring_size).ring_size}


def _trace(ring_size: int, ops: tuple[Any, ...]) -> list[Json]:
    ring = HostRing(ring_size)
    return [_OPERATIONS[op["op"]](ring, op) for op in ops]


def _enqueue(ring: HostRing, op: dict[str, Json]) -> Json:
    ticket = ring.enqueue(CODEC.decode(RingItem, op["item"]))
    return {"err": "QueueFull"} if ticket is None else {"slot": ring.slot_of(ticket)}


def _claim(ring: HostRing, _: dict[str, Json]) -> Json:
    claim = ring.claim()
    return {"item": None if claim is None else CODEC.encode(RingItem, claim.item)}


def _mark_done(ring: HostRing, op: dict[str, Json]) -> Json:
    try:
        ring.mark_done(op["slot"])
    except PlanError as error:
        return {"err": error.kind}
    return {"done": ring.is_done(op["slot"])}


def _state(ring: HostRing, _: dict[str, Json]) -> Json:
    state = ring.state()
    return {"head": state.head, "tail": state.tail, "in_flight": state.in_flight, "done": list(state.done)}


_OPERATIONS: Final[Mapping[str, Callable[[HostRing, dict[str, Json]], Json]]] = {
    "enqueue": _enqueue,
    "claim": _claim,
    "mark_done": _mark_done,
    "state": _state,
}

FILES: Final[Mapping[str, Mapping[str, Row]]] = {
    "device_work_queue": {
        "plan_device_work_queue": Row(plan_queue, fallible=True),
        "plan_device_work_queue_with_expansion": Row(plan_queue_with_expansion, fallible=True),
        "plan_device_work_queue_backpressure": Row(plan_backpressure, fallible=True),
    },
    "device_convergence": {"plan_device_convergence": Row(plan_convergence, fallible=True)},
    "persistent_ring": {
        "try_new": Row(_strict, fallible=True),
        "new": Row(_rounded, fallible=True),
        "trace": Row(_trace),
    },
}
