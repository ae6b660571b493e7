"""How long the property tests look: seconds by default, long under ``VYRE_SOAK=1`` (``make soak``)."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

SOAK: Final = os.environ.get("VYRE_SOAK", "") not in ("", "0")
_SOAK_FACTOR: Final = 100


def examples(count: int) -> settings:
    """``count`` examples, the same ones in every run; in a soak many more, and new ones every time."""
    return settings(
        max_examples=count * (_SOAK_FACTOR if SOAK else 1),
        derandomize=not SOAK,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


def few_examples() -> None:
    """For runs against mutants (``make mutants``): a few examples, always the same ones, and no shrinking."""
    settings.register_profile(
        "mutants",
        max_examples=25,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutants")
