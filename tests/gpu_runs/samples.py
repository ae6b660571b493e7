"""Samples behind the numbers of a record, which become the evidence of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

ALONE: Final = "ours"
"""The name of the side that was measured without another one."""


class Spread(dict[str, Any]):
    """Numbers about samples, as JSON; the samples themselves, in ``unit``, stay with them."""

    def __init__(self, numbers: Mapping[str, Any], samples: Sequence[float], unit: str) -> None:
        super().__init__(numbers)
        self.samples: Final = tuple(map(float, samples))
        self.unit: Final = unit


class Sampled(NamedTuple):
    """Sides that a group measured, each with its samples in the order in which they were taken, in ``unit``."""

    name: str
    unit: str
    sides: dict[str, tuple[float, ...]]


def sampled(name: str, value: object) -> Iterator[Sampled]:
    """The samples in a fact: what one mapping holds are the sides of one measurement."""
    if isinstance(value, Spread):
        yield Sampled(name, value.unit, {ALONE: value.samples})
    elif isinstance(value, Mapping):
        spreads = {key: each for key, each in value.items() if isinstance(each, Spread)}
        for unit in dict.fromkeys(each.unit for each in spreads.values()):
            sides = {key.removesuffix(f"_{unit}"): each.samples for key, each in spreads.items() if each.unit == unit}
            yield Sampled(name, unit, sides)
        for key, each in value.items():
            if not isinstance(each, Spread):
                yield from sampled(f"{name}, {key}", each)
