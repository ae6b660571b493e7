"""Every pass of the optimizer, alone and with all others, keeps the answers of the gallery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import vyre
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.domain.optimize.passes import run_passes
from vyre.gallery.example import mismatches
from vyre.gallery.registry import MODULES, load


@pytest.fixture(scope="module")
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference", cache=False) as opened:
        yield opened


@pytest.mark.parametrize("module", MODULES)
def test_the_gallery_gives_the_independent_answers(module: str, session: vyre.Session) -> None:
    example = load(module)
    case = example.case()
    source = example.program()
    made = {step.name: step.run(source, Counter()) for step in PASSES.values()}
    made["all"] = run_passes(source, [PASSES[name] for name in DEFAULT_ORDER * 2]).program
    for name, program in made.items():
        if program is not source:
            assert mismatches(case, example.run(session, program, case)) == [], name
