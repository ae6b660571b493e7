"""``place_passes``: which passes run on the device of a session."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vyre.domain.optimize.pass_list import PASSES
from vyre.policies.optimizing.pass_placement import (
    MEASURED,
    PassTime,
    PlacementInputs,
    PlacementTables,
    place_passes,
)
from vyre.policies.optimizing.program_passes import EngineKind

INPUTS = PlacementInputs(engine=EngineKind.DEVICE, nodes=100)
TABLES = PlacementTables(
    native=(PassTime("folding/1", 3, 3, 0),),
    device=(PassTime("dead_code/1", 3, 1, 150), PassTime("folding/1", 5, 1, 500)),
)


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        (0, ()),
        (75, ()),
        (76, ("dead_code/1",)),
        (125, ("dead_code/1",)),
        (126, ("dead_code/1", "folding/1")),
    ],
)
def test_a_pass_runs_where_it_takes_less_time(nodes: int, names: tuple[str, ...]) -> None:
    assert place_passes(replace(INPUTS, nodes=nodes), TABLES).names == names


def test_the_reason_has_both_times() -> None:
    found = place_passes(INPUTS, TABLES)
    assert str(found.why) == "for 100 nodes dead_code/1 take 250 ns on the device and 300 ns on the host"
    assert found.label == "device"


def test_equal_times_leave_a_pass_on_the_host() -> None:
    found = place_passes(replace(INPUTS, engine=EngineKind.NATIVE), TABLES)
    assert found.names == () and found.label == "host"
    assert str(found.why) == "for 100 nodes folding/1 take 300 ns on the device and 300 ns on the host"


def test_nothing_runs_on_an_engine_that_was_not_measured() -> None:
    found = place_passes(replace(INPUTS, engine=EngineKind.INTERPRETER), TABLES)
    assert found.names == () and str(found.why) == "no times were measured on an engine of kind interpreter"


@pytest.mark.parametrize("engine", EngineKind)
@pytest.mark.parametrize("nodes", [1, 10**3, 10**6, 2**40])
def test_no_measured_pass_pays(engine: EngineKind, nodes: int) -> None:
    assert place_passes(PlacementInputs(engine=engine, nodes=nodes)).names == ()


def test_nothing_runs_on_a_device_that_the_session_does_not_ask_for() -> None:
    found = place_passes(replace(INPUTS, wanted=False, nodes=10**6), TABLES)
    assert found.names == () and str(found.why) == "the session runs the passes on the host"


def test_the_measured_tables_name_the_passes_of_this_version() -> None:
    versions = {str(step) for step in PASSES.values()}
    for table in (MEASURED.interpreter, MEASURED.native, MEASURED.device):
        assert {time.name for time in table} <= versions
