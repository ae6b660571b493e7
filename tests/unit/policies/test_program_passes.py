"""``choose_passes``: which passes prepare a program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.policies.optimizing.program_passes import (
    MEASURED,
    EngineKind,
    PassGain,
    PassInputs,
    PassTables,
    choose_passes,
)

INPUTS = PassInputs(engine=EngineKind.NATIVE, nodes=10)
TABLES = PassTables(
    interpreter=(PassGain("copies/1", 3, 4),),
    native=(PassGain("copies/1", 3, 5), PassGain("folding/1", 4, 90), PassGain("numbering/1", 7, 7)),
)


def test_passes_that_save_more_than_they_take_run_in_the_order_of_the_table() -> None:
    found = choose_passes(INPUTS, TABLES)
    assert found.names == ("copies/1", "folding/1")
    assert str(found.why) == "2 passes take 70 ns for 10 nodes and save 950 ns"
    assert found.label == "optimized"


def test_each_kind_of_engine_has_a_table_of_its_own() -> None:
    assert choose_passes(replace(INPUTS, engine=EngineKind.INTERPRETER), TABLES).names == ("copies/1",)
    found = choose_passes(replace(INPUTS, engine=EngineKind.DEVICE), TABLES)
    assert found.names == () and found.label == "as written"
    assert str(found.why) == "no pass saves more time than it takes on an engine of kind device"


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        (replace(INPUTS, wanted=False), "the caller asked for the program as it is written"),
        (replace(INPUTS, counts_steps=True), "steps are counted in the program as it is written"),
        (replace(INPUTS, checks_races=True), "races are looked for in the program as it is written"),
    ],
)
def test_some_programs_run_as_they_are_written(inputs: PassInputs, why: str) -> None:
    found = choose_passes(inputs, TABLES)
    assert found.names == () and str(found.why) == why


def test_the_measured_tables_name_the_passes_of_this_version_in_their_order() -> None:
    versions = {str(step): name for name, step in PASSES.items()}
    for table in (MEASURED.interpreter, MEASURED.native, MEASURED.device):
        names = [versions[gain.name] for gain in table]
        assert names == sorted(names, key=DEFAULT_ORDER.index)
