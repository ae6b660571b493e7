"""Native or split grid barriers."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.policies.launching.grid_sync_mode import GridSyncInputs, GridSyncMode, GridSyncVerdict, choose_grid_sync

NATIVE, SPLIT = GridSyncMode.NATIVE, GridSyncMode.SPLIT
INPUTS: Final = st.builds(
    GridSyncInputs,
    cooperative=st.booleans(),
    workgroups=st.integers(0, 3000),
    multiprocessors=st.integers(0, 200),
    resident_per_multiprocessor=st.integers(0, 32),
    forced=st.sampled_from((None, NATIVE, SPLIT)),
)


@pytest.mark.parametrize(
    ("cooperative", "workgroups", "resident", "forced", "verdict", "why"),
    [
        (True, 264, 2, None, GridSyncVerdict(NATIVE), "264 workgroups are resident at once, up to 264 can be"),
        (True, 265, 2, None, GridSyncVerdict(SPLIT), "265 workgroups do not fit 132 multiprocessors of 2 each"),
        (True, 1, 0, None, GridSyncVerdict(SPLIT), "1 workgroups do not fit 132 multiprocessors of 0 each"),
        (False, 1, 2, None, GridSyncVerdict(SPLIT), "the device launches no cooperative kernels"),
        (True, 1, 2, SPLIT, GridSyncVerdict(SPLIT), "split kernels are asked for"),
        (True, 1, 2, NATIVE, GridSyncVerdict(NATIVE), "1 workgroups are resident at once, up to 264 can be"),
        (False, 1, 2, NATIVE, GridSyncVerdict(NATIVE, possible=False), "the device launches no cooperative kernels"),
        (
            True,
            265,
            2,
            NATIVE,
            GridSyncVerdict(NATIVE, possible=False),
            "265 workgroups do not fit 132 multiprocessors of 2 each",
        ),
    ],
)
def test_verdicts(
    cooperative: bool,
    workgroups: int,
    resident: int,
    forced: GridSyncMode | None,
    verdict: GridSyncVerdict,
    why: str,
) -> None:
    found = choose_grid_sync(GridSyncInputs(cooperative, workgroups, 132, resident, forced))
    assert found == verdict
    assert str(found.why) == why


@given(INPUTS)
def test_a_native_barrier_never_waits_for_a_workgroup_that_cannot_start(inputs: GridSyncInputs) -> None:
    found = choose_grid_sync(inputs)
    if found.mode is NATIVE and found.possible:
        assert inputs.cooperative
        assert inputs.workgroups <= inputs.multiprocessors * inputs.resident_per_multiprocessor
    assert inputs.forced in (None, found.mode)
    assert found.possible or inputs.forced is NATIVE
