"""The numbers of samples that cost measurements take and need, and the age at which costs become stale."""

from __future__ import annotations

from typing import Final

LEAST_SAMPLES: Final = 5
"""The least number of samples of a cost; fewer have no meaningful quartiles."""
MOST_ROUNDS: Final = 100_000
"""The largest number of rounds of a measurement; more take hours and are no more precise."""
USUAL_SAMPLES: Final = 15
"""The default number of samples of each cost."""
SETTLING_SAMPLES: Final = 9
"""The number of observed runs from which a cost is computed; fewer are not used."""
TELLING_LAUNCHES: Final = 16
"""The least number of launches in one run from which the cost of a launch is computed.

The time of a shorter run only bounds it from above, because caches and branch predictors are cold at the first launch.
"""
MAX_AGE_S: Final = 30 * 86_400
"""The default age, in seconds, beyond which costs are stale, since drivers and clocks change."""
