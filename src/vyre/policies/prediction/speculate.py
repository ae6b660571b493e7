"""Does a specialized call take the special code, given how often its guess held so far?

A guess holds in a call or not.  The rate is a moving average in ppm, of which each call is a quarter, rounded down; it
starts at the threshold.  Speculation is switched off below three quarters of the threshold, and on again from five
quarters of it on.  All O(1); states are values, and ``after`` returns the next one.

vyre-driver has the same rule for dispatches that commit and roll back many items, with a threshold that may be so high
that nothing switches speculation on again.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from vyre.domain.dispatch import SpeculationMode
from vyre.policies.arith import PPM
from vyre.policies.record import U32, Reason, record, verdict, why_field

THRESHOLD_PPM: Final = 150_000
"""The share of calls in which a guess must hold."""
FULL_RATE_PPM: Final = PPM - 3
"""The limit of the average if a guess always holds: rounding down keeps it from the last 3 ppm."""


@record
class GuessRate:
    """How often a guess holds: the moving average, and whether speculation is on."""

    ema_ppm: U32 = THRESHOLD_PPM
    enabled: bool = True

    def after(self, was_right: bool) -> GuessRate:
        """Returns the rate after one more call."""
        ema = self.ema_ppm + ((was_right * PPM - self.ema_ppm) >> 2)
        limit = THRESHOLD_PPM - THRESHOLD_PPM // 4 if self.enabled else THRESHOLD_PPM + THRESHOLD_PPM // 4
        return GuessRate(ema, ema >= limit)


class SpeculationPath(Enum):
    """The code that a call takes: the special one, or that for any parameters."""

    SPECIAL = "special"
    GENERAL = "general"


@record
class PathInputs:
    """The mode that the config of a call asks for, and the rate of the guess."""

    mode: SpeculationMode | None
    rate: GuessRate


@verdict
class PathVerdict:
    """The path of a call."""

    path: SpeculationPath
    why: Reason = why_field()


def choose_path(inputs: PathInputs) -> PathVerdict:
    """Returns the code that a call takes whose parameters are those of the guess."""
    rate = inputs.rate.ema_ppm
    if inputs.mode is SpeculationMode.FORCE:
        return PathVerdict(SpeculationPath.SPECIAL, Reason("forced"))
    if inputs.mode is SpeculationMode.DISABLE:
        return PathVerdict(SpeculationPath.GENERAL, Reason("disabled"))
    if inputs.rate.enabled:
        return PathVerdict(SpeculationPath.SPECIAL, Reason("a guess that holds in {} ppm of calls pays", (rate,)))
    return PathVerdict(SpeculationPath.GENERAL, Reason("a guess that holds in {} ppm of calls does not pay", (rate,)))
