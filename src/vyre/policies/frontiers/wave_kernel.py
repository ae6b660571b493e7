"""Do dependent waves of launches run as one kernel with barriers of the grid?

Units: nanoseconds, basis points.  Rule: where a round was measured both ways, the faster one.  Otherwise a round of
``launches`` launches is predicted to take ``launches * (kernel + gap)``, and one kernel to save all gaps but one; it is
tried where it saves more than ``min_gain_bps`` of that, because its barriers take time that nobody has measured yet.
Waves that run as one kernel are measured, and given up where that was slower.  O(1).

vyre-driver chooses a shape of the kernel by density, degree and pressures with limits that are not measured.
"""

from __future__ import annotations

from typing import Final

from vyre.policies.arith import weighted
from vyre.policies.record import BasisPoints, Count, Nanoseconds, Reason, record, verdict, why_field


@record
class WaveKernelInputs:
    """A round of waves.

    ``launches`` is the number of its launches; ``kernel_ns`` the mean time of one on the device, ``gap_ns`` what one
    costs beside that.  ``one_kernel_ns`` and ``launches_ns`` are measured times of the round, in one kernel and with a
    launch for each step; None: not measured.  ``stored``: another process measured and stored them.
    """

    launches: Count
    kernel_ns: Nanoseconds
    gap_ns: Nanoseconds
    one_kernel_ns: Nanoseconds | None = None
    launches_ns: Nanoseconds | None = None
    stored: bool = False


@record
class WaveKernelThresholds:
    """``min_gain_bps``: the share of a round's time that one kernel has to save before it was measured."""

    min_gain_bps: BasisPoints = 1_500


@verdict
class WaveKernel:
    """Whether waves run in one kernel."""

    one_kernel: bool
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """How the waves run, for telemetry."""
        return "one kernel" if self.one_kernel else "launches"


DEFAULT_THRESHOLDS: Final = WaveKernelThresholds()


def choose_wave_kernel(inputs: WaveKernelInputs, thresholds: WaveKernelThresholds = DEFAULT_THRESHOLDS) -> WaveKernel:
    """Returns the faster of both ways where both were measured, else the cheaper one by the price of launches."""
    one, apart = inputs.one_kernel_ns, inputs.launches_ns
    if one is not None and apart is not None:
        where = "measured before, and stored" if inputs.stored else "measured"
        return WaveKernel(one < apart, Reason("{}: {} ns in one kernel, {} ns in launches", (where, one, apart)))
    price = inputs.launches * (inputs.kernel_ns + inputs.gap_ns)
    saved = max(inputs.launches - 1, 0) * inputs.gap_ns
    margin = weighted(price, thresholds.min_gain_bps)
    text = "one kernel saves {} ns of {} ns in launches, {} than {} ns, and is not measured"
    return WaveKernel(saved > margin, Reason(text, (saved, price, "more" if saved > margin else "no more", margin)))
