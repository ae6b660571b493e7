"""Measured times of waves of sequences, which decide whether equal waves run in one kernel, and their text form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Final, NamedTuple

from vyre.domain.frozen import frozen
from vyre.domain.launch_costs import CostSource
from vyre.domain.record import U64_MAX
from vyre.domain.sealed_json import SealedForm

VERSION: Final = 1
MOST_WAVES: Final = 4096
"""The waves of which a table holds times; the oldest leave first."""


class WaveTime(NamedTuple):
    """The times of a round of waves in ns: in one kernel, and with a launch for each step."""

    one_kernel_ns: int
    launches_ns: int


@frozen
class WaveTimes:
    """The times of waves on one device, by a digest of their structure and size, oldest first."""

    source: CostSource
    times: Mapping[str, WaveTime] = field(default_factory=dict)

    def with_time(self, waves: str, time: WaveTime) -> WaveTimes:
        """Returns the table with these times in place of earlier ones of the same waves."""
        times = {name: known for name, known in self.times.items() if name != waves} | {waves: time}
        return WaveTimes(self.source, dict(list(times.items())[-MOST_WAVES:]))


def to_text(table: WaveTimes) -> str:
    """Returns JSON with version and digest."""
    return _FORM.seal(
        {
            "version": VERSION,
            "source": {f.name: getattr(table.source, f.name) for f in fields(CostSource)},
            "times": [[waves, *time] for waves, time in table.times.items()],
        }
    )


def from_text(text: str | bytes) -> WaveTimes:
    """Returns the table that ``to_text`` wrote; raises ``MalformedJson`` for any other text."""
    return _FORM.read(text, _table, to_text)


def _table(content: dict[str, Any]) -> WaveTimes:
    times = {waves: _time(one, apart) for waves, one, apart in content["times"]}
    return WaveTimes(CostSource(**content["source"]), times)


def _time(*numbers: Any) -> WaveTime:
    if not all(type(each) is int and 0 <= each <= U64_MAX for each in numbers):
        raise ValueError("a time is no number of ns")
    return WaveTime(*numbers)


_FORM: Final = SealedForm.of(
    b"vyre.wave-times.v1", "not times of waves", "remove the file, and they are measured again.", VERSION
)
