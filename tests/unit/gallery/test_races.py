"""Which basics of the gallery race, run as they are shown."""

from __future__ import annotations

from typing import Final

import pytest

from vyre.gallery.registry import BASICS, load
from vyre.testing.races import races

RACY: Final = {
    # Written for one lane; its four outputs make four, each of which clears and fills the whole of `dst`.
    "p25_async_copy": {("dst", 0), ("dst", 3)},
}


@pytest.mark.parametrize("module", BASICS)
def test_the_basics_have_no_races_but_those_listed(module: str) -> None:
    example = load(f"basics.{module}")
    case = example.case()
    report = races(example.program(), case.inputs, case.config)
    assert {(race.buffer, race.element) for race in report.races} == RACY.get(module, set())
