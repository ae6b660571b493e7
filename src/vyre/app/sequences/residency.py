"""The memory that runs of a sequence keep on the device, with one upload of its arrays for all rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre.domain.errors import PlanError
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from vyre.app.sequences.structure import Structure


class KeptMemory(NamedTuple):
    """The memory that ``rounds`` rounds keep on the device, in bytes.

    The arrays that are bound stay, ``array_bytes`` in all, and temporary arrays keep their memory.  Host data is
    uploaded by each round, ``refresh_bytes`` in one, and nothing is read back between rounds.
    """

    rounds: int
    array_bytes: int
    refresh_bytes: int
    temporary_bytes: int

    @property
    def peak_resident_bytes(self) -> int:
        """The bytes that are on the device at once."""
        return self.array_bytes + self.refresh_bytes + self.temporary_bytes

    @property
    def avoided_upload_bytes(self) -> int:
        """The bytes of arrays that no round but the first has to upload."""
        return (self.rounds - 1) * self.array_bytes


def kept_memory(structure: Structure, rounds: int, budget: int | None) -> KeptMemory | None:
    """Returns the memory that so many rounds of these launches take together, and the uploads that they avoid.

    ``budget`` is in bytes; None: no limit.  Returns None for no rounds, and for launches that bind no array that
    stays.  Raises ``PlanError`` if the budget does not hold them at once.
    """
    arrays: dict[int, int] = {}
    uploaded = 0
    for times, unit in ((times, unit) for units, times in structure.parts for unit in units):
        for resource in unit.launch.step.resources:
            if isinstance(resource, ResidentBuffer):
                if id(resource) not in structure.needed:
                    arrays[id(resource.root)] = resource.root.nbytes
            else:
                uploaded += times * unit.launch.kernels * resource.nbytes
    nbytes = sum(arrays.values())
    if not rounds or not nbytes:
        return None
    kept = KeptMemory(rounds, nbytes, uploaded, structure.temporary_bytes)
    if budget is not None and kept.peak_resident_bytes > budget:
        raise PlanError(
            "OverBudget",
            fix="bind fewer arrays at once, or give the session more memory.",
            required_bytes=kept.peak_resident_bytes,
            budget_bytes=budget,
        )
    return kept
