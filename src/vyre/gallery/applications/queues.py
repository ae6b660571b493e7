"""Work queues by one dispatch: what ``Session.work_queue`` does on resident memory, with host arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.work_queues.draining import CONTROL_WORDS, INITIAL_ROOM, TOTALS, DrainForm, drain_program
from vyre.domain.work_queues.roles import QueueRoles
from vyre.gallery.example import Array, Dispatcher, Inputs

ROLES: Final = QueueRoles(items="items", pushed="pushed", count="count")
GROUPS: Final = 2


def drained(session: Dispatcher, program: Program, inputs: Inputs, items: Array, capacity: int) -> Mapping[str, Array]:
    """Runs ``program`` once for each item and for each item that it pushes; returns its arrays, by name, and under
    "totals" the numbers that ``TOTALS`` names.
    """
    form = drain_program(program, ROLES)
    assert isinstance(form, DrainForm), form
    queue = np.zeros(capacity, np.uint32)
    queue[: items.size] = items
    control = np.zeros(CONTROL_WORDS, np.uint32)
    control[INITIAL_ROOM] = capacity
    own: dict[str, Array | int] = {
        form.queue: queue,
        form.control: control,
        form.totals: np.zeros(len(TOTALS), np.uint64),
        form.more: np.zeros(1, np.uint32),
        **{name: np.zeros(1, np.uint32) for name in form.counters[:-1]},
        form.counters[-1]: np.array([items.size], np.uint32),
        form.budget: 0xFFFF_FFFF,
    }
    result = session.dispatch(form.program, {**inputs, **own}, DispatchConfig(grid=(GROUPS, 1, 1)))
    arrays = [buffer.name for buffer in form.program.abi_buffers if buffer.is_returned and buffer.name not in own]
    return {**{name: result[name] for name in arrays}, "totals": result[form.totals]}
