"""Kernels of the gallery in plain Python give the independent answers, and some are the programs of a builder too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

import vyre
from vyre import Session
from vyre.gallery.example import mismatches
from vyre.gallery.registry import MODULES, load

EXAMPLES: Final = {module: load(module) for module in MODULES}
IN_PYTHON: Final = tuple(module for module, example in EXAMPLES.items() if example.kernel is not None)
IN_BOTH_FORMS: Final = tuple(module for module, example in EXAMPLES.items() if example.builder is not None)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with vyre.open("reference") as opened:
        yield opened


def test_most_kernels_are_in_plain_python_and_five_are_in_both_forms() -> None:
    assert len(IN_PYTHON) > len(MODULES) // 2
    assert len(IN_BOTH_FORMS) == 5


@pytest.mark.parametrize("module", IN_BOTH_FORMS)
def test_both_forms_are_one_program(module: str) -> None:
    example = EXAMPLES[module]
    assert example.kernel is not None and example.builder is not None
    one, other = example.kernel.program, example.builder()
    assert one.digest == other.digest
    assert one.name == other.name
    assert [buffer.name for buffer in one.abi_buffers] == [buffer.name for buffer in other.abi_buffers]


@pytest.mark.parametrize("module", IN_PYTHON)
def test_the_kernel_in_plain_python_gives_the_independent_answer(module: str, session: Session) -> None:
    example, case = EXAMPLES[module], EXAMPLES[module].case()
    assert example.kernel is not None
    assert mismatches(case, example.run(session, example.kernel.program, case)) == []
