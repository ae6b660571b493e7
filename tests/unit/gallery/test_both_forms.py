"""Kernels of the gallery in plain Python and for the ``ProgramBuilder`` are the same programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

import vyre
from vyre import Kernel, Program, Session
from vyre.gallery.applications import blake3_chunks
from vyre.gallery.example import mismatches
from vyre.gallery.registry import MODULES, load

EXAMPLES: Final = {module: load(module) for module in MODULES}
MODULES_WITH_BOTH: Final = tuple(module for module, example in EXAMPLES.items() if example.kernel is not None)


def pairs() -> Iterator[tuple[str, Kernel[...], Callable[[], Program]]]:
    """The name of every kernel that has both forms, and the forms."""
    for module in MODULES_WITH_BOTH:
        example = EXAMPLES[module]
        assert example.kernel is not None
        yield example.name, example.kernel, example.builder
    yield "blake3-parents", blake3_chunks.hash_parents, blake3_chunks.hash_parents_by_builder


PAIRS: Final = tuple(pytest.param(kernel, builder, id=name) for name, kernel, builder in pairs())


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with vyre.open("reference") as opened:
        yield opened


def test_at_least_twenty_kernels_have_both_forms() -> None:
    assert len({kernel.program.digest for _, kernel, _ in pairs()}) >= 20


@pytest.mark.parametrize(("kernel", "builder"), PAIRS)
def test_both_forms_have_one_digest(kernel: Kernel[...], builder: Callable[[], Program]) -> None:
    assert kernel.program.digest == builder().digest


@pytest.mark.parametrize(("kernel", "builder"), PAIRS)
def test_both_forms_name_program_and_parameters_alike(kernel: Kernel[...], builder: Callable[[], Program]) -> None:
    one, other = kernel.program, builder()
    assert one.name == other.name
    assert [buffer.name for buffer in one.abi_buffers] == [buffer.name for buffer in other.abi_buffers]


@pytest.mark.parametrize("module", MODULES_WITH_BOTH)
def test_the_kernel_in_plain_python_gives_the_independent_answer(module: str, session: Session) -> None:
    example, case = EXAMPLES[module], EXAMPLES[module].case()
    assert example.kernel is not None
    assert mismatches(case, example.run(session, example.kernel.program, case)) == []
