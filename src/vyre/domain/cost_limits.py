"""How many samples of a cost are usual and needed, and how long costs hold."""

from __future__ import annotations

from typing import Final

LEAST_SAMPLES: Final = 5
"""Fewer have no quartiles to speak of."""
MOST_ROUNDS: Final = 100_000
"""More take hours and tell no more."""
USUAL_SAMPLES: Final = 15
"""Of each cost, unless the caller says otherwise."""
SETTLING_SAMPLES: Final = 9
"""Observed runs that settle what a cost is; nothing is made of fewer."""
TELLING_LAUNCHES: Final = 16
"""Of one run, that tell what a launch costs; of fewer it is a bound: the first of them finds the processor cold."""
MAX_AGE_S: Final = 30 * 86_400
"""Costs that are older are stale, unless the caller says otherwise: drivers and clocks change."""
