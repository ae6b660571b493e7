"""How the groups judge: bytes, counters of a backend, and what has to be refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vyre import Session
from vyre.testing.outcomes import Outcome, Verdict

Array = npt.NDArray[Any]


def judged(name: str, right: bool, reason: str = "") -> Outcome:
    """``reason`` says what was found instead."""
    return Outcome(name, Verdict.PASSED if right else Verdict.FAILED, "" if right else reason)


def same(name: str, found: Array, wanted: Array) -> Outcome:
    """Both hold the same bytes; the first element that differs is named."""
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return judged(name, False, f"{found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}")
    word = np.dtype(f"u{wanted.dtype.itemsize}")
    there, here = (np.ascontiguousarray(array).reshape(-1).view(word) for array in (found, wanted))
    wrong = np.flatnonzero(there != here)
    if not wrong.size:
        return judged(name, True)
    at = int(wrong[0])
    reason = f"{wrong.size} of {wanted.size} elements are wrong, first [{at}]: {there[at]:#x}, not {here[at]:#x}"
    return judged(name, False, reason)


def refused(name: str, work: Callable[[], object], *errors: type[Exception]) -> Outcome:
    """``work`` raises one of ``errors``."""
    try:
        work()
    except errors:
        return judged(name, True)
    return judged(name, False, "was not refused")


def spent(session: Session, work: Callable[[], object]) -> dict[str, int]:
    """The differences of the backend's counters that ``work`` makes."""
    before = session.metrics()
    work()
    return {name: value - before[name] for name, value in session.metrics().items()}


def counted(name: str, found: Mapping[str, int], **wanted: int) -> Outcome:
    """Each counter has the wanted value."""
    wrong = {counter: found[counter] for counter, value in wanted.items() if found[counter] != value}
    return judged(name, not wrong, f"{wrong}, not { ({counter: wanted[counter] for counter in wrong}) }")
