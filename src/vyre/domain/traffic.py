"""How long a device takes to read and write bytes, by the times that were measured of it."""

from __future__ import annotations

from itertools import pairwise

from vyre.domain.launch_costs import TRAFFIC_BYTES, LaunchCosts, Measured, Provenance
from vyre.domain.record import U64, record


@record
class Traffic:
    """The bytes that launches read and write, and those of the arrays in which they do it."""

    moved_nbytes: U64
    held_nbytes: U64


def traffic_time(traffic: Traffic, costs: LaunchCosts) -> Measured | None:
    """Returns the time of moving bytes within arrays as large as these, or None where nobody timed such traffic.

    Between two sizes of arrays that were timed the time of touching all of them is interpolated; beyond the smallest
    and the largest it is in proportion to the bytes.
    """
    timed_sizes = [(size, time) for name, size in TRAFFIC_BYTES.items() if (time := _timed(costs, name)) is not None]
    if not timed_sizes:
        return None
    nbytes = max(1, traffic.held_nbytes)
    small, large = timed_sizes[0], timed_sizes[-1]
    for one, other in pairwise(timed_sizes):
        if one[0] <= nbytes <= other[0]:
            small, large = one, other
    if not small[0] < nbytes < large[0]:
        size, time = large if nbytes >= large[0] else small
        return _scaled(time, traffic.moved_nbytes, size)
    (less, below), (more, above) = small, large
    each = below.median_ns + (above.median_ns - below.median_ns) * (nbytes - less) // (more - less)
    error = max(below.standard_error_ns, above.standard_error_ns)
    between = Measured(max(0, each), error, error, min(below.count, above.count), below.provenance)
    return _scaled(between, traffic.moved_nbytes, nbytes)


def _timed(costs: LaunchCosts, name: str) -> Measured | None:
    time: Measured | None = getattr(costs, name)
    return None if time is None or time.provenance is Provenance.ASSUMED else time


def _scaled(time: Measured, times: int, parts: int) -> Measured:
    spread, error = (-(-ns * times // parts) for ns in (time.spread_ns, time.standard_error_ns))
    return Measured(time.median_ns * times // parts, spread, error, time.count, time.provenance)
