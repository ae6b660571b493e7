"""Every mistake on the pages gets the message that stands there: typed, with a ``Fix:``, at the line that makes it."""

from __future__ import annotations

from collections import Counter

import pytest

from vyre.app.cli.exit_codes import Exit
from vyre.domain.errors import LocatedError, VyreError

from .pages import FILE, Mistake, answer, mistakes, pages

ALL = [mistake for page in pages() for mistake in mistakes(page)]
IN_PYTHON = [mistake for mistake in ALL if not mistake.is_command]
COMMANDS = [mistake for mistake in ALL if mistake.is_command]


@pytest.mark.parametrize("mistake", IN_PYTHON, ids=lambda m: m.title)
def test_a_mistake_in_python_gets_the_typed_error_of_its_page(mistake: Mistake) -> None:
    found = answer(mistake)
    assert isinstance(found.error, VyreError), f"a foreign exception: {found.error!r}"
    assert found.error.message and found.error.fix.endswith((".", ")")) and ". Fix: " in str(found.error)
    assert found.error.__suppress_context__ or found.error.__context__ is None, "it is shown below another error"
    if mistake.marked_line is not None:
        assert names_line(found.error, mistake.marked_line), found.text
    assert found.text == mistake.expected, "renew the pages by python -m tests.mistakes --write, and read the diff"


def names_line(error: VyreError, line: int) -> bool:
    """Whether the error has the line as its location, or names it in its text as a report of the validator does."""
    if isinstance(error, LocatedError):
        assert error.loc is not None
        return (error.loc.file, error.loc.line) == (FILE, line)
    return str(error).startswith(f"{FILE}:{line}: ")


@pytest.mark.parametrize("mistake", COMMANDS, ids=lambda m: m.title)
def test_a_mistake_on_the_command_line_gets_the_answer_of_its_page(mistake: Mistake) -> None:
    found = answer(mistake)
    assert found.code in {Exit.WRONG, Exit.USAGE, Exit.UNAVAILABLE}
    assert "internal error" not in found.text and "Traceback" not in found.text
    assert "Fix: " in found.text or "= help: " in found.text
    assert found.text == mistake.expected, "renew the pages by python -m tests.mistakes --write, and read the diff"


def test_there_are_many_and_each_has_a_title_of_its_own() -> None:
    assert len(ALL) >= 75
    counted = Counter(mistake.page for mistake in ALL)
    assert (
        counted["kernels"] >= 25 and counted["python"] >= 80 and counted["sessions"] >= 25 and counted["commands"] >= 15
    )
    titles = Counter((mistake.page, mistake.title) for mistake in ALL)
    assert [title for title, times in titles.items() if times > 1] == []


def test_every_mistake_in_a_kernel_names_a_line() -> None:
    in_kernels = [mistake for mistake in IN_PYTHON if mistake.page in ("kernels", "python")]
    assert [mistake.title for mistake in in_kernels if mistake.marked_line is None] == []


def test_every_mistake_in_python_underlines_what_is_meant() -> None:
    of_source = [m for m in IN_PYTHON if m.page == "python" and m.expected.startswith("KernelSourceError: ")]
    assert len(of_source) >= 80
    unmarked = [m.title for m in of_source if not m.expected.rstrip("\n").endswith("^")]
    # These have no source of a `def`.
    assert unmarked == ["A lambda as a kernel", "The size of workgroups without its name", "A builtin as a kernel"]
