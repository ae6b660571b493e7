"""The check of the intervals of bytes that records of the reference system hold."""

from __future__ import annotations

from vyre.domain.errors import InvalidField
from vyre.policies.concurrency.hazards import Interval


def check_intervals(record: str, field: str, intervals: tuple[Interval, ...]) -> None:
    """Raises ``InvalidField`` of that record for intervals that are empty, out of order or overlapping."""
    end = 0
    for start, stop in intervals:
        if not end <= start < stop:
            expected = f"an interval of at least one byte that starts at {end} or later"
            raise InvalidField(record=record, field=field, value=(start, stop), expected=expected)
        end = stop
