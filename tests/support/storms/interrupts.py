"""Ctrl-C at every line of the code under test, one run after the other."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any


def interrupted_everywhere(
    modules: tuple[ModuleType, ...], action: Callable[[], object], check: Callable[[], object]
) -> int:
    """Calls ``action`` again and again, with a ``KeyboardInterrupt`` at the first line of these modules that it comes
    to, then at the second, until it ends without one; returns how many lines that were.  After each call ``check`` is
    called, without an interrupt.

    Lines that enter a ``with`` or ``try`` block are left out: a signal handler does not run between the end of a block
    and the release of what it holds, nor where a block begins, and a trace of lines may.
    """
    number = 0
    while _is_interrupted(number, frozenset(str(module.__file__) for module in modules), action):
        number += 1
        check()
    return number


def _is_interrupted(number: int, files: frozenset[str], action: Callable[[], object]) -> bool:
    left = number

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line" and not _enters(frame):
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def _enters(frame: FrameType) -> bool:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(("with ", "try:"))
