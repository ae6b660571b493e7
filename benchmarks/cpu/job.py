"""What a job consists of, and what a contender makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

import vyre

Array: TypeAlias = npt.NDArray[Any]
Data: TypeAlias = Mapping[str, Any]
"""Arrays and numbers by name: the same in every process, as they are made from fixed seeds."""

_ALIGNMENT: Final = 64


def _nothing() -> None:
    return None


class Side(NamedTuple):
    """A contender's solution, prepared: ``run`` computes it, and ``answer`` returns a copy of what it has computed.

    ``close`` frees its memory.
    """

    run: Callable[[], object]
    answer: Callable[[], Array]
    close: Callable[[], object] = _nothing


Contender: TypeAlias = Callable[[Data], Side]


@dataclass(frozen=True, slots=True)
class Job:
    """A task.

    ``data(**size)`` makes the inputs, ``expected`` the answer, computed without vyre.  ``ours`` prepares the solution
    in a session.  A contender whose sums are added in another order, or whose functions are not correctly rounded, may
    differ from the answer by the relative error that ``tolerances`` has for it; all others give the same bytes.
    """

    name: str
    title: str
    data: Callable[..., dict[str, Any]]
    expected: Callable[[Data], Array]
    ours: Callable[[vyre.Session, Data], Side]
    full: Mapping[str, int]
    tiny: Mapping[str, int]
    tolerances: Mapping[str, float] = field(default_factory=dict)
    same_task: str = ""
    """The job that is the same for all other contenders: only vyre solves it in another way."""


class WrongAnswer(AssertionError):
    """A contender computed something else than the expected answer."""


def check(job: Job, contender: str, answer: Array, expected: Array) -> None:
    """Raises ``WrongAnswer`` unless the answer is right."""
    if answer.dtype != expected.dtype or answer.shape != expected.shape:
        raise WrongAnswer(
            f"{job.name}: {contender} gave {answer.dtype}{answer.shape}, not {expected.dtype}{expected.shape}"
        )
    tolerance = job.tolerances.get(contender)
    if tolerance is None:
        same = answer.view(f"u{answer.itemsize}") == expected.view(f"u{expected.itemsize}")
    else:
        same = np.isclose(answer, expected, rtol=tolerance, atol=tolerance)
    if not same.all():
        at = int(np.argmin(same))
        raise WrongAnswer(
            f"{job.name}: {int((~same).sum())} of {same.size} elements of {contender} are wrong, first [{at}]: "
            f"{answer[at]}, expected {expected[at]}"
        )


def aligned(array: Array) -> Array:
    """Returns a copy that starts at a multiple of 64 bytes."""
    memory = np.zeros(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def aligned_zeros(count: int, dtype: npt.DTypeLike) -> Array:
    """Returns zeros that start at a multiple of 64 bytes."""
    return aligned(np.zeros(count, dtype))
