"""The chart of a terminal: where curves lie, and that it fits."""

from __future__ import annotations

import pytest

from vyre.app.cli.chart import HEIGHT, Curve, chart, marks
from vyre.domain.durations import duration

SIZES = (1, 10, 100)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 us"),
        (12_345, "12.3 us"),
        (999_400, "999 us"),
        (1_500_000, "1.5 ms"),
        (2_000_000_000, "2 s"),
        (5_000_000_000_000, "5000 s"),
    ],
)
def test_a_duration_has_three_digits(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_curves_by_their_logarithms() -> None:
    falling, level = Curve("plain", "p", (100_000, 10_000, 1_000)), Curve("graph", "g", (10_000, 10_000, 10_000))
    assert chart(SIZES, [falling, level], 33, ascii_only=True) == [
        "   100 us|pp",
        "         |  pp",
        "         |    pp",
        "         |      pp",
        "         |        pp",
        "         |ggggggggggpppgggggggggg",
        "         |             ppp",
        "         |                pp",
        "         |                  ppp",
        "     1 us|                     pp",
        "         +-----------------------",
        "          1       batch       100",
        "          p plain  g graph",
    ]


@pytest.mark.parametrize("width", [32, 50, 76, 500])
@pytest.mark.parametrize("values", [(1, 1, 1), (0, 5, 10**15), (7, 7, 8)])
def test_it_fits(width: int, values: tuple[int, ...]) -> None:
    lines = chart(SIZES, [Curve("plain", "p", values)], width)
    assert len(lines) == HEIGHT + 3
    assert max(map(len, lines)) <= min(width, 76)
    body = [line[10:] for line in lines[:HEIGHT]]
    columns = len(lines[HEIGHT]) - 10
    assert all(any(len(line) > x and line[x] == "p" for line in body) for x in range(columns))


@pytest.mark.parametrize(
    ("sizes", "curves", "width"),
    [(SIZES, [Curve("plain", "p", (1, 2, 3))], 31), ((1,), [Curve("plain", "p", (1,))], 80), (SIZES, [], 80)],
)
def test_there_is_none_where_it_would_say_nothing(sizes: tuple[int, ...], curves: list[Curve], width: int) -> None:
    assert chart(sizes, curves, width) == []


def test_marks_are_first_letters_that_are_free() -> None:
    assert marks(["plain", "graph", "persistent", "pl"]) == {"plain": "p", "graph": "g", "persistent": "e", "pl": "l"}
    assert marks(["a", "a" * 2, "a" * 3])["aaa"] == "*"
