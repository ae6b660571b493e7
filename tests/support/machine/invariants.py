"""The invariant of the scheduler of lanes, checked on the state of a batch."""

from __future__ import annotations

import numpy as np

from vyre.adapters.cuda.machine.launch import Batch


def broken(batch: Batch) -> str:
    """What of the invariant of the scheduler of lanes does not hold; empty if all of it does."""
    living = np.zeros(batch.count, np.int64)
    parked = {barrier: np.zeros(batch.count, np.int64) for barrier in batch.arrived}
    for strand in batch.strands:
        slots = np.broadcast_to(strand.slots, (strand.size,))
        places = np.zeros(strand.size, np.int64)
        for positions in strand.groups.values():
            if positions is None and (len(strand.groups) > 1 or strand.parked):
                return "a group of all lanes is not alone"
            places[slice(None) if positions is None else positions] += 1
        for one in strand.parked:
            places[one.positions] += 1
            if one.barrier not in parked:
                return f"lanes are parked at barrier {one.barrier}, where none has arrived"
            parked[one.barrier] += np.bincount(slots[one.positions], minlength=batch.count)
        if (places > 1).any():
            return f"lane {int(np.argmax(places))} of a strand is in {int(places.max())} places"
        living += np.bincount(slots[places > 0], minlength=batch.count)
    if not living.any():
        return ""  # lanes that all end together are not counted
    if (living != batch.live).any():
        return f"{living.tolist()} lanes live, {batch.live.tolist()} are counted"
    for barrier, here in parked.items():
        if (here != batch.arrived[barrier]).any():
            return (
                f"{here.tolist()} lanes are parked at barrier {barrier}, {batch.arrived[barrier].tolist()} are counted"
            )
        if ((here == living) & (here > 0)).any():
            return f"a block is parked whole at barrier {barrier}"
    return ""
