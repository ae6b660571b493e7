"""A small chart for terminals: times over sizes, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import Final, NamedTuple

from vyre.domain.durations import duration

HEIGHT: Final = 10
LEAST_WIDTH: Final = 32
MOST_WIDTH: Final = 76
_AXIS: Final = 9


class Curve(NamedTuple):
    """One curve.  ``mark``: one character.  ``values``: positive, one for each size."""

    name: str
    mark: str
    values: Sequence[int]


def chart(sizes: Sequence[int], curves: Sequence[Curve], width: int, *, ascii_only: bool = False) -> list[str]:
    """Returns lines of at most ``width`` characters; none where it is too narrow or there is nothing to compare.

    ``sizes``: ascending and positive.  Where curves meet, the mark of the first one is shown.
    """
    columns = min(width, MOST_WIDTH) - _AXIS - 1
    if width < LEAST_WIDTH or len(sizes) < 2 or not curves:
        return []
    values = [max(1, value) for curve in curves for value in curve.values]
    low, high = log10(min(values)), log10(max(values))
    cells: dict[tuple[int, int], str] = {}
    for curve in curves:
        places = [_place(log10(max(1, value)), low, high, HEIGHT) for value in curve.values]
        for column, row in _line(_columns(sizes, columns), places):
            cells.setdefault((column, row), curve.mark)
    side, corner, floor = ("|", "+", "-") if ascii_only else ("│", "└", "─")
    lines = []
    for row in reversed(range(HEIGHT)):
        label = {0: duration(min(values)), HEIGHT - 1: duration(max(values))}.get(row, "")
        body = "".join(cells.get((column, row), " ") for column in range(columns))
        lines.append(f"{label:>{_AXIS}}{side}{body}".rstrip())
    lines.append(f"{'':>{_AXIS}}{corner}{floor * columns}")
    first, last = str(sizes[0]), str(sizes[-1])
    middle = "batch".center(columns - len(first) - len(last))
    lines.append(f"{'':>{_AXIS + 1}}{first}{middle}{last}")
    lines.append(" " * (_AXIS + 1) + "  ".join(f"{curve.mark} {curve.name}" for curve in curves))
    return lines


def marks(names: Sequence[str]) -> Mapping[str, str]:
    """Returns for each name the first of its letters that no earlier name uses."""
    letters: dict[str, str] = {}
    for name in names:
        letters[name] = next((letter for letter in f"{name}*" if letter not in letters.values()), "*")
    return letters


def _columns(sizes: Sequence[int], columns: int) -> list[int]:
    low, high = log10(sizes[0]), log10(sizes[-1])
    return [_place(log10(size), low, high, columns) for size in sizes]


def _place(value: float, low: float, high: float, places: int) -> int:
    return 0 if high <= low else round((value - low) / (high - low) * (places - 1))


def _line(columns: Sequence[int], rows: Sequence[int]) -> list[tuple[int, int]]:
    """Returns every column between the first and the last, with the interpolated row."""
    points = []
    for (left, below), (right, above) in zip(
        zip(columns, rows, strict=True), zip(columns[1:], rows[1:], strict=True), strict=False
    ):
        for column in range(left, right + 1):
            share = 0 if right == left else (column - left) / (right - left)
            points.append((column, round(below + share * (above - below))))
    return points
