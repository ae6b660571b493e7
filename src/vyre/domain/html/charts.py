"""Pictures as inline SVG: curves over sizes, bars, and small lines of values.

Curves and bars have colours of middle brightness, which dark and light pages both show; text has that
of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, log10
from typing import Final

from vyre.domain.durations import duration
from vyre.domain.html.markup import LINE, Html, text

COLOURS: Final = ("#3b8bd4", "#d9822b", "#2ea37a", "#b861c9", "#8a8f98")
"""Colours of curves, distinguishable with colour blindness."""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _LEGEND = 460, 200, 70, 34, 120


def curves(sizes: Sequence[int], values: Mapping[str, Sequence[float]], title: str) -> Html:
    """Returns times in ns over sizes, both on logarithmic axes; nothing for fewer than two sizes.

    ``values``: for each name one time a size.
    """
    known = [max(1.0, value) for curve in values.values() for value in curve]
    if len(sizes) < 2 or not known:
        return Html("")
    low, high = log10(min(known)), log10(max(known))
    first, last = log10(max(1, sizes[0])), log10(max(1, sizes[-1]))
    width, height = _WIDTH - _LEFT, _HEIGHT - _BOTTOM - 10

    def x(size: int) -> float:
        return _LEFT + (log10(max(1, size)) - first) / ((last - first) or 1.0) * width

    def y(value: float) -> float:
        return 10 + height - (log10(max(1.0, value)) - low) / ((high - low) or 1.0) * height

    parts = [
        f'<path d="M{_LEFT} 10V{10 + height}H{_WIDTH}" fill="none" stroke="{LINE}"/>',
        _text(_LEFT - 6, 16, duration(10**high), "end"),
        _text(_LEFT - 6, 10 + height, duration(10**low), "end"),
        _text(_LEFT, _HEIGHT - 18, sizes[0]),
        _text(_WIDTH, _HEIGHT - 18, sizes[-1], "end"),
        _text(_LEFT + width / 2, _HEIGHT - 4, title, "middle"),
    ]
    for number, (name, curve) in enumerate(values.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in zip(sizes, curve, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        line = 20 + 18 * number
        parts.append(f'<rect x="{_WIDTH + 12}" y="{line - 8}" width="12" height="4" fill="{colour}"/>')
        parts.append(_text(_WIDTH + 30, line, name))
    return _svg(_WIDTH + _LEGEND, _HEIGHT, parts, title)


def bar(share: float) -> Html:
    """Returns a bar that is so much of its whole, from 0 to 1."""
    length = 100 * min(1.0, max(0.0, share))
    return _svg(100, 10, [f'<rect width="{length:.1f}" height="10" fill="{COLOURS[0]}"/>'], f"{share:.0%}")


def line(values: Sequence[float]) -> Html:
    """Returns the course of at least two values as a small picture; values that are no numbers leave gaps."""
    finite = [value for value in values if isfinite(value)]
    if len(values) < 2 or not finite:
        return Html("")
    low, high = min(finite), max(finite)
    step, pieces, pen = 118 / (len(values) - 1), [], "M"
    for place, value in enumerate(values):
        if not isfinite(value):
            pen = "M"
            continue
        height = 0.5 if high == low else (value / 2 - low / 2) / (high / 2 - low / 2)
        pieces.append(f"{pen}{1 + place * step:.1f} {23 - 22 * height:.1f}")
        pen = "L"
    path = f'<path d="{"".join(pieces)}" fill="none" stroke="{COLOURS[0]}" stroke-width="1.5"/>'
    return _svg(120, 24, [path], f"from {low:g} to {high:g}")


def _svg(width: int, height: int, parts: Sequence[str], title: str) -> Html:
    return Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" style="max-width:100%" font-size="12" font-family="sans-serif">'
        f"<title>{text(title)}</title>{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, words: object, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="currentColor">{text(words)}</text>'
