"""The programs of the gallery after passes, alone and all of them, give the answers computed without vyre."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vyre
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.domain.optimize.passes import run_passes
from vyre.domain.validation.validator import validate
from vyre.gallery.example import mismatches
from vyre.gallery.registry import MODULES, load

ORDERS = [(name,) for name in PASSES]


@pytest.fixture(scope="module")
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference", cache=False) as opened:
        yield opened


@pytest.mark.parametrize("module", MODULES)
def test_an_example_keeps_its_answer(session: vyre.Session, module: str) -> None:
    example = load(module)
    program, case = example.program(), example.case()
    for order in (*ORDERS, DEFAULT_ORDER, DEFAULT_ORDER * 2):
        made = run_passes(program, [PASSES[name] for name in order]).program
        if made is program:
            continue
        validate(made).raise_if_invalid()
        assert mismatches(case, example.run(session, made, case)) == [], order
