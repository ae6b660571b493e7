"""Work queues by one dispatch: what ``Session.work_queue`` does on resident memory, with host arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from vyre import DispatchConfig, drain_program
from vyre.gallery.example import Array, Dispatcher, Inputs
from vyre.ir import Program

GROUPS: Final = 2


def drained(session: Dispatcher, program: Program, inputs: Inputs, items: Array, capacity: int) -> Mapping[str, Array]:
    """Runs ``program`` once for each item and for each item that it pushes; returns its arrays by name, and
    under "processed" the number of items, as a u64.

    Raises ``WorkQueueOverflow`` if items find no room.
    """
    drain = drain_program(program, items="items", pushed="pushed", count="count")
    queue = drain.inputs(items, capacity)
    result = session.dispatch(drain.program, {**inputs, **queue}, DispatchConfig(grid=(GROUPS, 1, 1)))
    outputs = {buffer.name: result[buffer.name] for buffer in drain.program.abi_buffers if buffer.is_returned}
    processed = np.array([drain.totals(outputs)["processed"]], np.uint64)
    return {name: array for name, array in outputs.items() if name not in drain.names} | {"processed": processed}
