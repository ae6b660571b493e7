"""A chart of the verdicts of a decision over two inputs, as SVG.

The chart is written without a plotting library, whose pictures would change with its version and its fonts, so that a
test could not check them without installing exactly that version.  Areas are rectangles in units of samples, one per
line, and a picture changes only where a verdict does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple
from xml.etree import ElementTree as Xml

COLOURS: Final = ("#e8e8e8", "#56b4e9", "#e69f00", "#009e73", "#ffffff", "#cc79a7")
"""Colours of the verdicts in the order of the legend, distinguishable with colour blindness."""
WIDTH, HEIGHT, TOP = 480, 300, 50


class Tick(NamedTuple):
    """A label on an axis; ``place`` is between 0 and 1."""

    place: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """The samples of an input in ascending order of place, with title and labels."""

    title: str
    values: tuple[object, ...]
    ticks: tuple[Tick, ...]


def linear(title: str, low: int, high: int, step: int, tick: int) -> Axis:
    """Returns the integers ``low``, ``low + step``, ... up to ``high``; a sample is in the middle of its cell."""
    values = tuple(range(low, high + 1, step))
    first = -(-low // tick) * tick
    ticks = (Tick(((v - low) / step + 0.5) / len(values), _short(v)) for v in range(first, high + 1, tick))
    return Axis(title, values, tuple(ticks))


def logarithmic(title: str, low: int, high: int, samples: int, base: int = 10) -> Axis:
    """Returns integers at equal ratios from ``low`` to ``high``, with ticks at the powers of ``base``."""

    def place(value: int) -> float:
        return (math.log(value / low) / math.log(high / low) * (samples - 1) + 0.5) / samples

    values = tuple(round(low * (high / low) ** (i / (samples - 1))) for i in range(samples))
    powers = (base**k for k in range(64) if low <= base**k <= high)
    return Axis(title, values, tuple(Tick(place(p), _short(p)) for p in powers))


def categories(title: str, named: dict[str, object]) -> Axis:
    """Returns one sample for each name."""
    ticks = (Tick((i + 0.5) / len(named), name) for i, name in enumerate(named))
    return Axis(title, tuple(named.values()), tuple(ticks))


def _short(value: int) -> str:
    return f"{value:_}".replace("_", " ")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A chart: ``verdict`` maps every pair of samples to one of ``verdicts``."""

    title: str
    caption: str
    x: Axis
    y: Axis
    verdicts: tuple[str, ...]
    verdict: Callable[..., str]

    @property
    def left(self) -> int:
        """Width of the labels of the vertical axis."""
        return 44 + 7 * max(len(tick.label) for tick in self.y.ticks)

    def areas(self) -> list[tuple[int, int, int, int, str]]:
        """Returns column, row from below, width, height and verdict of rectangles that cover all samples."""
        found: list[tuple[int, int, int, int, str]] = []
        rows = ([self.verdict(x, y) for x in self.x.values] for y in self.y.values)
        bottom = 0
        for row, equal in groupby(rows):
            height, column = len(list(equal)), 0
            for verdict, run in groupby(row):
                width = len(list(run))
                found.append((column, bottom, width, height, verdict))
                column += width
            bottom += height
        return found

    def svg(self) -> str:
        """Returns the picture; the text is the same on every machine."""
        total = (self.left + WIDTH + 30, TOP + HEIGHT + 60)
        root = Xml.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {total[0]} {total[1]}",
                "font-family": "sans-serif",
                "font-size": "12",
            },
        )
        Xml.SubElement(root, "title").text = self.title
        _rectangle(root, 0, 0, *total, "#ffffff")
        _text(root, self.left, 18, self.title, weight="bold")
        self._draw_areas(root)
        self._draw_axes(root)
        self._draw_legend(root)
        Xml.indent(root)
        return Xml.tostring(root, encoding="unicode") + "\n"

    def _draw_areas(self, root: Xml.Element) -> None:
        columns, rows = len(self.x.values), len(self.y.values)
        scale = f"translate({self.left} {TOP + HEIGHT}) scale({WIDTH / columns:.4f} {-HEIGHT / rows:.4f})"
        group = Xml.SubElement(root, "g", {"transform": scale, "shape-rendering": "crispEdges"})
        for x, y, width, height, verdict in self.areas():
            _rectangle(group, x, y, width, height, COLOURS[self.verdicts.index(verdict)])

    def _draw_axes(self, root: Xml.Element) -> None:
        bottom, middle = TOP + HEIGHT, TOP + HEIGHT // 2
        for place, label in self.x.ticks:
            x = f"{self.left + place * WIDTH:.1f}"
            Xml.SubElement(root, "path", {"d": f"M{x} {bottom}v5", "stroke": "#000000"})
            _text(root, x, bottom + 18, label, anchor="middle")
        for place, label in self.y.ticks:
            y = TOP + HEIGHT - place * HEIGHT
            Xml.SubElement(root, "path", {"d": f"M{self.left} {y:.1f}h-5", "stroke": "#000000"})
            _text(root, self.left - 8, f"{y + 4:.1f}", label, anchor="end")
        _text(root, self.left + WIDTH // 2, bottom + 42, self.x.title, anchor="middle")
        _text(root, 16, middle, self.y.title, anchor="middle", transform=f"rotate(-90 16 {middle})")

    def _draw_legend(self, root: Xml.Element) -> None:
        x = self.left
        for colour, verdict in zip(COLOURS, self.verdicts, strict=False):
            _rectangle(root, x, 28, 12, 12, colour)
            _text(root, x + 17, 38, verdict)
            x += 40 + 7 * len(verdict)


def _rectangle(parent: Xml.Element, x: int, y: int, width: int, height: int, colour: str) -> None:
    place = {"x": str(x), "y": str(y), "width": str(width), "height": str(height)}
    Xml.SubElement(parent, "rect", {**place, "fill": colour})


def _text(parent: Xml.Element, x: object, y: object, text: str, *, weight: str = "", **more: str) -> None:
    anchor = {"text-anchor": more.pop("anchor")} if "anchor" in more else {}
    bold = {"font-weight": weight} if weight else {}
    Xml.SubElement(parent, "text", {"x": str(x), "y": str(y), **anchor, **bold, **more}).text = text
