"""The price of joined launches before they have run: traffic over measured bandwidth, and arithmetic."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from support.launch_costs import EVERY_MODE, launch_costs, measured
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance
from vyre.domain.traffic import Traffic
from vyre.policies.concurrency.hazards import AccessMode
from vyre.policies.launching.execution_prices import (
    Around,
    ExecutionMode,
    Fusion,
    Price,
    PriceInputs,
    Workload,
    quote,
)
from vyre.policies.stage_fusion.launch_fusion import (
    AccessRelation,
    BufferUse,
    DataflowInputs,
    DataflowStage,
    StageBuffer,
)

MIB = 1 << 20
STAGES = 8


def chain(length: int = STAGES) -> DataflowInputs:
    """Stages each of which reads what its own lanes wrote: they are one launch."""
    stages = [
        DataflowStage(
            place,
            0,
            0,
            False,
            (BufferUse(place, AccessMode.READ, AccessRelation.POINTWISE), BufferUse(place + 1, AccessMode.WRITE)),
        )
        for place in range(length)
    ]
    return DataflowInputs(tuple(stages), tuple(StageBuffer(each, 8) for each in range(length + 1)), 1_000)


def joined_ns(each_ns: int, costs: LaunchCosts, **fusion: Any) -> int:
    """The price of the kernel of all stages as one launch."""
    workload = Workload(
        STAGES, 1, 1, measured(each_ns), recorded=True, overlaps=False, fusion=Fusion(chain(), together=True, **fusion)
    )
    found = next(each for each in quote(PriceInputs(workload, costs, EVERY_MODE)) if each.mode is ExecutionMode.FUSED)
    assert isinstance(found, Price)
    (each,) = [term.times * term.each_ns for term in found.terms if term.cost in ("kernel", "fused_kernel")]
    return each


class Recorded(NamedTuple):
    """Times in ns and bytes of a chain of eight maps over 10^7 f32, one thread, as one machine took them."""

    kernel: int
    joined: int
    apart: Traffic
    together: Traffic
    costs: LaunchCosts


HELD = 9 * 40_000_000
RECORDS = (
    pytest.param(
        Recorded(
            3_892_498,
            2_785_236,
            Traffic(8 * 3 * 40_000_000, HELD),
            Traffic(2 * 40_000_000, 2 * 40_000_000),
            launch_costs(traffic_64_kib=1_139, traffic_1_mib=35_322, traffic_8_mib=272_125, traffic_64_mib=2_490_106),
        ),
        id="temporary arrays between",
    ),
    pytest.param(
        Recorded(
            3_925_194,
            14_151_283,
            Traffic(8 * 3 * 40_000_000, HELD),
            Traffic(9 * 40_000_000, HELD),
            launch_costs(traffic_64_kib=1_209, traffic_1_mib=46_875, traffic_8_mib=343_902, traffic_64_mib=2_472_725),
        ),
        id="arrays between that are kept",
    ),
)


@pytest.mark.parametrize("found", RECORDS)
def test_a_chain_that_was_measured_is_priced_by_its_traffic(found: Recorded) -> None:
    """Not by the sum of its parts, which is 11 and 2.2 times too much."""
    price = joined_ns(found.kernel, found.costs, apart=found.apart, joined=found.together)
    assert abs(price - found.joined) <= 0.2 * found.joined
    assert STAGES * found.kernel >= 2 * found.joined
    assert joined_ns(found.kernel, found.costs) == STAGES * found.kernel, "without traffic nothing is saved"


@pytest.mark.parametrize("found", RECORDS)
def test_the_time_that_was_measured_replaces_the_price(found: Recorded) -> None:
    price = joined_ns(
        found.kernel, found.costs, kernel=measured(found.joined), apart=found.apart, joined=found.together
    )
    assert price == found.joined


COSTS = launch_costs(traffic_1_mib=1_000)
APART, JOINED = Traffic(16 * MIB, MIB), Traffic(9 * MIB, MIB)


def test_arithmetic_stays_and_traffic_shrinks() -> None:
    """8 kernels of 5 us are 16 us of traffic and 24 us of arithmetic; joined, 9 us of traffic are left."""
    assert joined_ns(5_000, COSTS, apart=APART, joined=JOINED) == 24_000 + 9_000


def test_smaller_arrays_are_moved_faster() -> None:
    costs = launch_costs(traffic_1_mib=1_000, traffic_64_mib=200_000)
    small, large = Traffic(2 * MIB, MIB), Traffic(2 * MIB, 64 * MIB)
    apart = Traffic(64 * MIB, 64 * MIB)
    assert joined_ns(25_000, costs, apart=apart, joined=small) == 2_000
    assert joined_ns(25_000, costs, apart=apart, joined=large) == 6_250


@pytest.mark.parametrize("costs", [COSTS, launch_costs()], ids=["faster than its traffic", "nobody timed traffic"])
def test_else_all_of_it_is_traffic(costs: LaunchCosts) -> None:
    assert joined_ns(1_000, costs, apart=APART, joined=JOINED) == 8_000 * 9 // 16


def test_joining_is_never_priced_above_its_parts() -> None:
    more = Traffic(99 * MIB, 2 * MIB)
    assert joined_ns(5_000, COSTS, apart=APART, joined=more) == 40_000


def test_such_a_price_is_assumed() -> None:
    fusion = Fusion(chain(), together=True, apart=APART, joined=JOINED)
    workload = Workload(
        STAGES,
        1,
        1,
        Measured(5_000, 0, 10, 9, Provenance.MEASURED),
        recorded=True,
        overlaps=False,
        fusion=fusion,
        around=Around(listed=measured(1_000)),
    )
    prices = [each for each in quote(PriceInputs(workload, COSTS, EVERY_MODE)) if isinstance(each, Price)]
    found = {each.mode: each.provenance for each in prices}
    assert found[ExecutionMode.FUSED] is Provenance.ASSUMED
    assert found[ExecutionMode.GRAPH] is Provenance.MEASURED
