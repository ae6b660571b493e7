"""``choose_passes``: which passes prepare a program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vyre.domain.device import EngineKind
from vyre.domain.optimize.pass_list import PASSES
from vyre.policies.optimizing.program_passes import MEASURED, PassGain, PassInputs, PassTables, choose_passes

INPUTS = PassInputs(engine=EngineKind.NATIVE, nodes=10, runs=1)
TABLES = PassTables(
    interpreter=(PassGain("copies/1", 30, 4), PassGain("folding/1", 50, 4)),
    native=(
        PassGain("copies/1", 3, 5),
        PassGain("folding/1", 4, 90),
        PassGain("numbering/1", 7, 7),
        PassGain("copies/1", 3, 4),
    ),
)


def test_passes_that_save_more_than_they_take_run_in_the_order_of_the_table() -> None:
    found = choose_passes(INPUTS, TABLES)
    assert found.names == ("copies/1", "folding/1", "copies/1")
    assert str(found.why) == "3 passes take 100 ns for 10 nodes and save 990 ns in as many runs as the 1 so far"
    assert found.label == "optimized"


@pytest.mark.parametrize(
    ("runs", "names"), [(0, ()), (7, ()), (8, ("copies/1",)), (12, ("copies/1",)), (13, ("copies/1", "folding/1"))]
)
def test_a_program_is_expected_to_run_as_often_again(runs: int, names: tuple[str, ...]) -> None:
    inputs = replace(INPUTS, engine=EngineKind.INTERPRETER, runs=runs)
    assert choose_passes(inputs, TABLES).names == names


def test_each_kind_of_engine_has_a_table_of_its_own() -> None:
    found = choose_passes(replace(INPUTS, engine=EngineKind.DEVICE), TABLES)
    assert found.names == () and found.label == "as written"
    assert str(found.why) == "after 1 runs no pass saves more time than it takes on an engine of kind device"


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


def test_the_measured_tables_name_the_passes_of_this_version() -> None:
    versions = {str(step) for step in PASSES.values()}
    for table in (MEASURED.interpreter, MEASURED.native, MEASURED.device):
        assert {gain.name for gain in table} <= versions


def test_programs_of_the_interpreter_are_optimized_after_some_runs() -> None:
    found = [
        choose_passes(PassInputs(engine=EngineKind.INTERPRETER, nodes=100, runs=runs)).names for runs in (4, 8, 16)
    ]
    assert found == [(), ("narrowing/1", "dead_code/1"), ("narrowing/1", "inlining/2", "dead_code/1")]


def test_programs_that_are_compiled_are_left_as_they_are_written() -> None:
    for engine in (EngineKind.NATIVE, EngineKind.DEVICE):
        assert choose_passes(PassInputs(engine=engine, nodes=100, runs=10**6)).names == ()


def test_a_pass_that_needs_laws_pays_for_their_check() -> None:
    tables = PassTables(interpreter=(PassGain("copies/1", 1, 1), PassGain("saturation/1", 20, 10, law_ns=900)))
    inputs = replace(INPUTS, engine=EngineKind.INTERPRETER, runs=11)
    assert choose_passes(inputs, tables).names == ("copies/1",)
    assert choose_passes(replace(inputs, laws=1), tables).names == ("copies/1",)  # saves 1100 ns, and takes 1100 ns
    found = choose_passes(replace(inputs, laws=1, runs=12), tables)
    assert found.names == ("copies/1", "saturation/1")
    text = "2 passes take 1110 ns for 10 nodes and save 1320 ns in as many runs as the 12 so far"
    assert str(found.why) == f"{text}, with 1 laws of dialects checked"
    assert choose_passes(replace(inputs, laws=2, runs=12), tables).names == ("copies/1",)
    assert choose_passes(replace(inputs, laws=1, runs=12, wanted=False), tables).names == ()
