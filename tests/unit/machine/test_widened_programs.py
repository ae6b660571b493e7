"""Narrow values, private memory, indices and loops of every type, and switches: the machine against the reference."""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest

from support.cuda.ptx_runs import SCHEDULES
from support.machine.engine import MachineEngine
from support.running import Outcome, oracle, run
from support.widened_programs import widened_cases
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.ptx.options import ALL_OFF, EmitOptions

CASES: Final = dict(widened_cases())
FORMS: Final = {
    "usual": (RunOptions(), EmitOptions()),
    "shuffled": (SCHEDULES[2], EmitOptions()),
    "reverse": (SCHEDULES[1], EmitOptions(target=75)),
    "table": (RunOptions(), EmitOptions(target=75, switches=ALL_OFF, pointer_table=True)),
    "split": (SCHEDULES[3], EmitOptions(native_grid_sync=False)),
}
"""Ways to run and to write a program."""


@cache
def expected(name: str) -> Outcome:
    return oracle(CASES[name])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_the_machine_agrees_with_the_reference(name: str, form: str) -> None:
    options, emission = FORMS[form]
    assert run(MachineEngine(options, emission), CASES[name]) == expected(name)
