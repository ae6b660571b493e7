"""Which memory and which order do the waves of a typed frontier program have?

Unlike vyre-driver, whose adapter knows only waves and puts them into a chain, so that a planner of barriers never sees
two nodes that could run side by side, this keeps ``dependencies`` where they are given; ``node_waves`` returns them for
a program each node of which is a wave.  The chain is the default.  O(waves + dependencies).
"""

from __future__ import annotations

from itertools import pairwise

from vectors.seeds.frontier_execution import WaveEnvelope
from vyre.policies.frontiers.frontier_ir import FrontierIr, _edges
from vyre.policies.frontiers.waves import Dependencies
from vyre.policies.record import U64, Reason, checked_u64, record, verdict, why_field


@record
class FrontierWaveSizes:
    """The sizes of the waves of an analysis.

    ``wave_active_items`` holds the items of each wave.  ``dependencies`` are pairs of waves by index; None puts the
    waves into a chain.
    """

    wave_active_items: tuple[U64, ...]
    frontier_bytes_per_active_item: U64
    scratch_bytes_per_active_item: U64
    output_bytes_per_wave: U64
    dependencies: Dependencies | None = None


@verdict
class FrontierWaves:
    """The inputs for ``plan_frontier``, with the active items of each wave for the launch."""

    waves: tuple[WaveEnvelope, ...]
    active_items: tuple[int, ...]
    dependencies: tuple[tuple[int, int], ...]
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether some wave waits for another, for telemetry."""
        return "some wait" if self.dependencies else "none waits"


def node_waves(ir: FrontierIr) -> tuple[tuple[int, ...], Dependencies]:
    """Returns items and dependencies of a program each node of which is a wave of its own, in the order of its nodes.

    Raises like ``plan_frontier_ir`` except for ``Cycle``, which the planner of the waves raises.
    """
    return tuple(node.active_items for node in ir.nodes), tuple(_edges(ir))


def waves_from_frontier_ir(sizes: FrontierWaveSizes) -> FrontierWaves:
    """Returns the memory of each wave, and their order.  Raises ``PlanError("ByteCountOverflow")``."""
    count, dependencies = len(sizes.wave_active_items), sizes.dependencies
    if dependencies is None:
        dependencies = tuple(pairwise(range(count)))
        why = Reason("{} waves run one after the other, for nobody says what they depend on", (count,))
    else:
        why = Reason("{} waves run as {} dependencies allow", (count, len(dependencies)))
    return FrontierWaves(
        waves=tuple(
            WaveEnvelope(
                checked_u64(items * sizes.frontier_bytes_per_active_item, "wave frontier bytes"),
                checked_u64(items * sizes.scratch_bytes_per_active_item, "wave scratch bytes"),
                sizes.output_bytes_per_wave,
            )
            for items in sizes.wave_active_items
        ),
        active_items=sizes.wave_active_items,
        dependencies=dependencies,
        why=why,
    )
