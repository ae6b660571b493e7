"""Ctrl-C at every line of the code under test, or wherever CPython looks for it, one run after the other."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from support.profiles import SOAK
from support.storms.interrupt_storm import Places, looks


def interrupted_everywhere(
    modules: tuple[ModuleType, ...],
    action: Callable[[], object],
    check: Callable[[], object],
    places: Places = Places.LINES,
    every: int = 1,
) -> int:
    """Calls ``action`` again and again, with a ``KeyboardInterrupt`` at the first line of these modules that it comes
    to, then at the second, until it ends without one; returns how many lines that were.  After each call ``check`` is
    called, without an interrupt.  ``Places.SIGNALS``: at the instructions at which CPython may have looked for signals
    instead of lines, which are several of a line: after each call, before its value is stored.  ``every``: one of so
    many places is tried, in a soak each.

    Lines that enter a ``with`` or ``try`` block are left out: a signal handler does not run between the end of a block
    and the release of what it holds, nor where a block begins, and a trace of lines may.
    """
    number = 0
    every = 1 if SOAK else every
    while _is_interrupted(number, frozenset(str(module.__file__) for module in modules), action, places):
        number += every
        check()
    return number


def _is_interrupted(number: int, files: frozenset[str], action: Callable[[], object], places: Places) -> bool:
    left = number

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if places is Places.SIGNALS:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            is_place = event == "opcode" and frame.f_lasti in looks(frame.f_code)
        else:
            is_place = event == "line" and not _enters(frame)
        if is_place:
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
