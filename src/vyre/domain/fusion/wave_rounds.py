"""Waves that repeat: the shortest round of them, and what differs from round to round.

A wave is a list of launches that may run at once.  Two waves are alike if their launches have the same programs on the
same memory; the values of their parameters and their numbers of workgroups may differ, and then stand in a table with a
row for each round.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.fusion.stages import Refused, StageCall
from vyre.domain.ir.types import ScalarType

Wave: TypeAlias = Sequence[StageCall]
TABLED: Final = frozenset({ScalarType.U32, ScalarType.I32, ScalarType.F32})
"""The types of parameters that a table of u32 holds."""
_LEAST_WAVES: Final = 4
"""The waves that a round of a loop has, if its waves can be written out so often."""


class Round(NamedTuple):
    """A list of waves as ``waves`` of them, ``times`` times, and then the first ``rest`` of them once more."""

    waves: int
    times: int
    rest: int


def shortest_round(waves: Sequence[Wave]) -> Round:
    """Returns the shortest round of which the waves are repetitions, the last perhaps cut; O(launches)."""
    keys = _keys(waves)
    borders = [0]
    while len(borders) < len(keys):
        _extend(borders, keys, 0)
    width = len(keys) - borders[-1]
    return Round(width, len(keys) // width, len(keys) % width)


def unrolled(waves: Sequence[Wave], times: int, most_stages: int) -> tuple[Sequence[Wave], Round, int, int]:
    """Returns waves with the round that a loop holds, the rounds that differ, and how often the loop runs.

    A short round is written out several times, because the end of a round costs more than a barrier inside it.
    """
    round_ = shortest_round(waves)
    if round_.rest and times > 1:
        round_ = Round(len(waves), 1, 0)
    width, rounds, rest = round_
    stages = sum(map(len, waves[:width]))
    for copies in range(min(_LEAST_WAVES // width, most_stages // stages), 1, -1):
        if rounds % copies == 0 and rounds > copies:
            return waves, Round(width * copies, rounds // copies, rest), rounds // copies, rounds // copies * times
        if rounds == 1 and not rest and times % copies == 0:
            return [*waves] * copies, Round(width * copies, 1, 0), 1, times // copies
    if width == 1 and rounds > 3 and times == 1 and 3 * stages <= most_stages:  # a number that nothing divides
        return waves, Round(2, rounds // 2, rounds % 2), rounds // 2, rounds // 2
    return waves, round_, rounds, rounds * times


def _keys(waves: Sequence[Wave]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(tuple(map(_key, wave)), len(numbers)) for wave in waves]


def _extend(borders: list[int], keys: Sequence[int], start: int) -> None:
    """Appends the longest proper prefix that is a suffix too, of the next prefix of the keys from ``start`` on."""
    key, border = keys[start + len(borders)], borders[-1]
    while border and key != keys[start + border]:
        border = borders[border - 1]
    borders.append(border + (key == keys[start + border]))


def _key(call: StageCall) -> Hashable:
    """Returns what is equal for launches that differ in nothing but what a table holds."""
    bound = call.program.abi_buffers
    fixed = tuple(
        (buffer.name, value.bits)
        for buffer in bound
        if buffer.is_push
        and (value := call.values.get(buffer.name)) is not None
        and (value.dtype not in TABLED or buffer.element is not value.dtype)
    )
    return (
        call.program.digest,
        call.workgroup,
        call.grid if call.grid[1:] != (1, 1) else None,
        call.counts,
        call.nbytes,
        tuple(
            ("unknown", identity) if buffer.name not in call.values else None
            for buffer, identity in zip(bound, call.buffers, strict=True)
            if buffer.is_push
        ),
        tuple(identity for buffer, identity in zip(bound, call.buffers, strict=True) if not buffer.is_push),
        fixed,
        tuple(sorted((name, value.dtype.text, value.bits) for name, value in call.spec.items())),
    )


class Blocks(NamedTuple):
    """The workgroups of the common launch that run a launch with so many ``groups``: ``share`` from ``first`` on."""

    first: int
    share: int
    groups: int


def divided(wave: Wave, most: int) -> list[Blocks]:
    """Returns the workgroups, at most ``most``, that run each launch of a wave: as many as it has, or a share in
    proportion to that.

    Raises ``Refused`` where there are fewer workgroups than launches.
    """
    groups = [prod(call.grid) for call in wave]
    total = sum(groups)
    counts = groups
    if total > most:
        active = sum(1 for count in groups if count)
        if active > most:
            raise Refused(f"{active} launches of a wave have no workgroup each among {most}", 0)
        # Each gets one, and of the others the whole part of its share; the largest remainders get what is left.
        spare = most - active
        counts = [1 + spare * (count - 1) // (total - active) if count else 0 for count in groups]
        left = sorted(range(len(groups)), key=lambda group: -(spare * max(groups[group] - 1, 0) % (total - active)))
        for group in left[: most - sum(counts)]:
            counts[group] += 1
    shares: list[Blocks] = []
    first = 0
    for count, whole in zip(counts, groups, strict=True):
        shares.append(Blocks(first, count, whole))
        first += count
    return shares


class Table:
    """A table of u32 with a row for each round; columns whose rows are equal are numbers instead."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._columns: dict[tuple[int, ...], int] = {}

    def number(self, values: Sequence[int]) -> int | Column:
        """Returns a number of all rounds, or the column with the numbers of each."""
        first = values[0]
        if all(value == first for value in values):
            return first
        return Column(self._columns.setdefault(tuple(values), len(self._columns)))

    @property
    def columns(self) -> int:
        """Returns the number of columns."""
        return len(self._columns)

    @property
    def content(self) -> bytes:
        """Returns the words, row after row, in little-endian order."""
        columns = list(self._columns)
        return b"".join(column[row].to_bytes(4, "little") for row in range(self._rows) for column in columns)


class Column(NamedTuple):
    """A column of a table."""

    number: int


def without_values(call: StageCall, names: frozenset[str]) -> StageCall:
    """Returns a launch of which the values of some parameters are not known."""
    return replace(call, values={name: value for name, value in call.values.items() if name not in names})


def pieces_of(waves: Sequence[Wave], most_stages: int) -> list[range]:
    """Returns successive waves that one program can hold with the code of at most ``most_stages`` launches.

    A piece is a list of rounds, where at least two rounds are found, or waves without a pattern.  A wave with more
    launches is a piece of its own.
    """
    keys = _keys(waves)
    pieces: list[range] = []
    start = number = code = 0
    while number < len(waves):
        rounds = _repeated(keys, number, [len(wave) for wave in waves[number : number + most_stages + 1]], most_stages)
        width = len(waves[number])
        if number > start and (rounds or code + width > most_stages):
            pieces.append(range(start, number))
            start, code = number, 0
        if rounds:
            pieces.append(range(number, number + rounds))
            start = number = number + rounds
            continue
        number, code = number + 1, code + width
    return [*pieces, range(start, number)] if number > start else pieces


def _repeated(keys: Sequence[int], start: int, widths: Sequence[int], most_stages: int) -> int:
    """Returns how many waves from ``start`` on are at least two rounds of waves with so few launches; 0: none."""
    borders = [0]
    best = 0
    while start + len(borders) < len(keys):
        _extend(borders, keys, start)
        length = len(borders)
        period = length - borders[-1]
        if period > most_stages:
            break
        if 2 * period <= length and sum(widths[:period]) + sum(widths[: length % period]) <= most_stages:
            best = length
    return best
