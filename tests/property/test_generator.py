"""The random programs of these tests: what they reach, and that they are valid."""

from __future__ import annotations

from support.features import ALL_FEATURES, features
from support.programs import Order, generate
from vyre.testing.random_programs.grid_loops import looped

SEEDS = 700


def test_the_generator_reaches_every_feature_of_the_language() -> None:
    found: set[str] = set()
    for seed in range(20):
        if (case := looped(seed)) is not None:
            found |= features(case)
    for seed in range(SEEDS):
        for order in Order:
            found |= features(generate(seed, order=order, traps=True, indirect=True))
        if found >= ALL_FEATURES:
            break
    assert found <= ALL_FEATURES, sorted(found - ALL_FEATURES)
    print(f"reached {len(found)} of {len(ALL_FEATURES)} features ({len(found) / len(ALL_FEATURES):.1%})")
    assert found == ALL_FEATURES, sorted(ALL_FEATURES - found)


def test_a_seed_names_one_case() -> None:
    for order in Order:
        first, second = (generate(11, order=order, traps=True) for _ in range(2))
        assert (first.program, first.inputs, first.config) == (second.program, second.inputs, second.config)
