"""How long the property tests look: seconds by default, long under ``VYRE_SOAK=1`` (``make soak``)."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

SOAK: Final = os.environ.get("VYRE_SOAK", "") not in ("", "0")
_SOAK_FACTOR: Final = 100
MUTANTS: Final = os.environ.get("VYRE_MUTANTS", "") not in ("", "0")
_SLOW: Final = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


class Scale:
    """``divisor``: of the examples that tests ask for.  Set before any test is imported."""

    divisor = 1


def examples(count: int) -> settings:
    """``count`` examples, the same ones in every run; in a soak many more, and new ones every time."""
    if MUTANTS:
        return settings(few_examples(), max_examples=min(count, 25))
    return settings(
        max_examples=max(count * (_SOAK_FACTOR if SOAK else 1) // Scale.divisor, min(count, 5)),
        derandomize=not SOAK,
        deadline=None,
        suppress_health_check=_SLOW,
    )


def usual_examples() -> settings:
    """For a test that does not say how many: also in a soak, where they are other ones every time."""
    return settings(examples(100), max_examples=25 if MUTANTS else 100 // Scale.divisor)


def few_examples() -> settings:
    """For runs against mutants (``make mutants``): always the same few, and no shrinking."""
    return settings(
        max_examples=25,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=_SLOW,
    )
