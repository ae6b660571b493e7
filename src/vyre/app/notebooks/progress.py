"""Progress bars in notebooks: for calibration, tuning and the demo.

Outside notebooks nothing is shown; the command line shows progress of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

Step = Callable[[str], None]
"""Tells that one more step is done; the text, if it is not empty, says what was done."""
MOST_UPDATES: Final = 100
"""A bar changes at most so often, since each change is a message to the page."""


@contextmanager
def progress(title: str, steps: int) -> Iterator[Step]:
    """Shows a bar during the block where Python runs in a notebook; yields the function that advances it."""
    display = _notebook_display()
    if display is None:
        yield _nothing
        return
    bar = Bar(title, steps)
    try:
        handle: Any = display(bar, display_id=True)
    except Exception:  # work does not fail because it cannot be shown
        yield _nothing
        return

    def advance(what: str = "") -> None:
        if bar.advance(what) and handle is not None:
            handle.update(bar)

    yield advance
    bar.end()
    if handle is not None:
        handle.update(bar)


class Bar:
    """The state of a bar, which shows itself in a notebook."""

    def __init__(self, title: str, steps: int) -> None:
        self._title = title
        self._steps = max(1, steps)
        self._done = 0
        self._what = ""

    def advance(self, what: str = "") -> bool:
        """Counts a step; returns whether the bar has changed enough to be shown again."""
        before = self._done * MOST_UPDATES // self._steps
        self._done = min(self._done + 1, self._steps)
        self._what = what
        return bool(what) or self._done * MOST_UPDATES // self._steps > before

    def end(self) -> None:
        """Makes the bar full."""
        self._done, self._what = self._steps, "done"

    def __repr__(self) -> str:
        what = f": {self._what}" if self._what else ""
        return f"{self._title}: {self._done} of {self._steps}{what}"

    def _repr_html_(self) -> str:
        from vyre.domain.html.charts import bar
        from vyre.domain.html.markup import Html, paragraph, text

        what = f": {self._what}" if self._what else ""
        share = bar(self._done / self._steps)
        return paragraph(Html(f"{share} {text(self._title)}, {self._done} of {self._steps}{text(what)}"))


def _nothing(what: str = "") -> None:
    """Shows nothing."""


def _notebook_display() -> Callable[..., Any] | None:
    """Returns the function that shows something in the notebook that runs this code, or None outside notebooks."""
    interactive = sys.modules.get("IPython")
    if interactive is None:
        return None
    try:
        shell = interactive.get_ipython()
        if shell is None or getattr(shell, "kernel", None) is None:  # IPython on a terminal has no kernel
            return None
        from importlib import import_module

        display: Callable[..., Any] = import_module("IPython.display").display
    except Exception:
        return None
    return display
