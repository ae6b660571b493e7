"""``Job``: a task that contenders solve, and ``Side``: the solution of one of them, ready to run."""

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
    """The prepared solution of a contender.

    ``run`` computes the answer, ``answer`` returns a copy of it, and ``close`` frees the memory.
    """

    run: Callable[[], object]
    answer: Callable[[], Array]
    close: Callable[[], object] = _nothing


Contender: TypeAlias = Callable[[Data], Side]


@dataclass(frozen=True, slots=True)
class Job:
    """A task, whose inputs ``data(**size)`` makes; ``full`` and ``tiny`` are the sizes for measurements and for tests.

    ``expected(data)`` computes the answer without vyre, and ``ours(session, data)`` prepares vyre's solution.
    Contenders give the same bytes as ``expected``.  Only one that adds in another order, or whose functions are not
    correctly rounded, may differ: by the number in ``tolerances``, as relative or as absolute error.
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
    """The name of the job with the same inputs and answer, for which only vyre has another solution; empty if none."""


class WrongAnswer(AssertionError):
    """A contender computed something else than the expected answer."""


def check(job: Job, contender: str, answer: Array, expected: Array) -> None:
    """Raises ``WrongAnswer`` unless ``answer`` has the dtype, the shape and, within the tolerance, the elements."""
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
    """Returns a copy of the same dtype and shape whose address is a multiple of 64."""
    memory = np.zeros(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def aligned_zeros(count: int, dtype: npt.DTypeLike) -> Array:
    """Returns ``count`` zeros, of shape ``(count,)``, whose address is a multiple of 64."""
    return aligned(np.zeros(count, dtype))
