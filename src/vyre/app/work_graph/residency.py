"""The plan of the memory that runs of a work graph keep on the device, with one upload of its arrays for all rounds."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from vyre.domain.record import U64_MAX
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.transfer.residency import Readback, SessionPlan, SessionProfile, plan_session
from vyre.ports.backend import ResidentBuffer

if TYPE_CHECKING:
    from vyre.app.work_graph.structure import Structure


def plan_residency(
    structure: Structure, rounds: int, budget: int | None, sink: DecisionSink | None
) -> SessionPlan | None:
    """Returns the memory that so many rounds of these launches take together, and the uploads that they avoid.

    The arrays that are bound stay, temporary arrays keep their memory, the host data of a round is uploaded by each,
    and nothing is read back between rounds.  ``budget`` is in bytes; None: no limit.  Returns None for no rounds, and
    for launches that bind no array that stays.  Raises ``PlanError`` if the budget does not hold them at once.
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
    layout = blake2b(repr(sorted(arrays.values())).encode(), digest_size=8).digest()
    return decide(
        sink,
        plan_session,
        SessionProfile(
            graph_layout_hash=int.from_bytes(layout, "little") or 1,
            graph_bytes=nbytes,
            run_count=rounds,
            per_run_frontier_bytes=min(uploaded, U64_MAX),
            reusable_scratch_bytes=structure.temporary_bytes,
            per_run_output_bytes=0,  # all results stay on the device
            budget_bytes=U64_MAX if budget is None else budget,
            readback=Readback.FINAL_ONLY,
        ),
    )
