"""Launch costs: what samples say, age and place, and their text."""

from __future__ import annotations

import json
import random
from dataclasses import fields, replace
from statistics import median, stdev
from typing import Any

import pytest

from support.launch_costs import SOURCE, launch_costs, measured
from vyre.domain.cost_limits import MAX_AGE_S
from vyre.domain.errors import ForeignCosts, InvalidField, MalformedJson, StaleCosts, UnusableCosts
from vyre.domain.launch_costs import (
    ASSUMED,
    COSTS,
    CostSource,
    KernelTime,
    LaunchCosts,
    Measured,
    Provenance,
    age_s,
    check_usable,
    from_text,
    is_stale,
    of_samples,
    to_text,
    weakest,
)
from vyre.domain.sealed_json import SealedForm

KERNELS = (KernelTime("a", measured(700, 3)), KernelTime("b", measured(900, 0, Provenance.EMULATED)))
COSTED = replace(launch_costs(graph_update=None), kernels=KERNELS)
FORM = SealedForm(b"vyre.launch-costs.v1", MalformedJson)


# ---- values
@pytest.mark.parametrize(
    ("samples", "found"),
    [
        ((5, 1, 4, 2, 3), (3, 2, 1, 5)),
        ((7,) * 9, (7, 0, 0, 9)),
        ((0, 0, 0, 0, 5, 5, 10, 10, 10, 10), (5, 10, 3, 10)),
        ((1, 2, 3, 4, 5, 6), (3, 2, 1, 6)),
        (tuple(range(0, 4_000, 10)), (1_995, 1_995, 93, 400)),
    ],
)
def test_what_samples_say(samples: tuple[int, ...], found: tuple[int, int, int, int]) -> None:
    assert of_samples(samples, Provenance.MEASURED) == Measured(*found, Provenance.MEASURED)


def test_the_standard_error_is_that_of_medians() -> None:
    """Over many repetitions of a measurement, medians scatter as each of them says."""
    gauss = random.Random(1).gauss
    found = [of_samples([round(gauss(1e6, 1e5)) for _ in range(100)], Provenance.MEASURED) for _ in range(400)]
    scatter = stdev(value.median_ns for value in found)
    assert median(value.standard_error_ns for value in found) == pytest.approx(scatter, rel=0.1)


def test_four_samples_are_too_few() -> None:
    with pytest.raises(InvalidField, match="at least 5"):
        of_samples((1, 2, 3, 4), Provenance.MEASURED)


def test_outliers_do_not_move_it() -> None:
    quiet, busy = (100, 101, 102, 103, 104, 105, 106, 107, 108), (100, 101, 102, 103, 104, 105, 106, 107, 10**9)
    assert of_samples(quiet, Provenance.MEASURED) == of_samples(busy, Provenance.MEASURED)


@pytest.mark.parametrize(
    ("count", "provenance"), [(0, Provenance.MEASURED), (0, Provenance.EMULATED), (1, Provenance.ASSUMED)]
)
def test_only_what_is_assumed_has_no_samples(count: int, provenance: Provenance) -> None:
    with pytest.raises(InvalidField, match=r"Measured\.count"):
        Measured(1, 0, 0, count, provenance)


def test_emulated_times_never_count_as_measured() -> None:
    everything = launch_costs()
    assert everything.provenance is Provenance.MEASURED
    emulated = replace(everything, event_pair=measured(1, 0, Provenance.EMULATED))
    assert emulated.provenance is Provenance.EMULATED
    assert replace(everything, kernels=KERNELS).provenance is Provenance.EMULATED
    assert replace(emulated, launch=measured(1, 0, Provenance.ASSUMED)).provenance is Provenance.ASSUMED
    assert weakest([Provenance.MEASURED, Provenance.EMULATED, Provenance.MEASURED]) is Provenance.EMULATED


def test_unknown_is_a_value() -> None:
    nothing = LaunchCosts(SOURCE, 0)
    assert (nothing.known(), nothing.provenance, nothing.kernel("a")) == ({}, None, None)
    assert set(COSTED.known()) == {name for name in COSTS if getattr(COSTED, name) is not None}
    assert "graph_update" not in COSTED.known()
    assert from_text(to_text(nothing)) == nothing


def test_a_kernel_is_found_by_its_pipeline() -> None:
    assert COSTED.kernel("b") == KERNELS[1].time
    assert COSTED.kernel("c") is None


@pytest.mark.parametrize("kernels", [KERNELS[::-1], (KERNELS[0], KERNELS[0])])
def test_kernels_are_ascending(kernels: tuple[KernelTime, ...]) -> None:
    with pytest.raises(InvalidField, match=r"LaunchCosts\.kernels"):
        LaunchCosts(SOURCE, 0, kernels=kernels)


def test_everything_is_assumed_somewhere() -> None:
    assert tuple(ASSUMED.known()) == COSTS
    assert ASSUMED.provenance is Provenance.ASSUMED
    for value in ASSUMED.known().values():
        assert value.median_ns > 0
        assert value.spread_ns + 4 > 4 * value.standard_error_ns >= value.spread_ns > 0


# ---- age and place
def test_age() -> None:
    assert MAX_AGE_S == 30 * 24 * 60 * 60
    assert [age_s(COSTED, now) for now in (0, 1_000, 1_007)] == [0, 0, 7]
    assert [is_stale(COSTED, now, 7) for now in (0, 1_007, 1_008)] == [False, False, True]
    assert [is_stale(COSTED, 1_000 + MAX_AGE_S + late) for late in (0, 1)] == [False, True]


def test_costs_of_this_place_and_time_are_usable() -> None:
    check_usable(COSTED, SOURCE, 1_000 + MAX_AGE_S)


@pytest.mark.parametrize("field", [field.name for field in fields(CostSource)])
def test_costs_of_another_place_are_foreign(field: str) -> None:
    with pytest.raises(ForeignCosts, match=r"another.* are not those of cuda on a device, driver 13\.0") as caught:
        check_usable(replace(COSTED, source=replace(SOURCE, **{field: "another"})), SOURCE, 1_000)
    assert isinstance(caught.value, UnusableCosts)


def test_old_costs_are_stale() -> None:
    with pytest.raises(StaleCosts, match="9 s old, at most 8 s are allowed"):
        check_usable(COSTED, SOURCE, 1_009, 8)


# ---- text
def test_text_is_canonical_json_with_a_digest() -> None:
    content = json.loads(to_text(COSTED))
    assert to_text(COSTED) == json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert content.pop("blake3") != json.loads(to_text(ASSUMED))["blake3"]
    assert content["version"] == 4
    assert content["source"] == {"backend": "cuda", "device": "a device", "driver": "13.0"}
    assert content["costs"]["graph_update"] is None
    assert content["kernels"]["a"] == {
        "median_ns": 700,
        "spread_ns": 0,
        "standard_error_ns": 3,
        "count": 9,
        "provenance": "measured",
    }


@pytest.mark.parametrize("costs", [COSTED, ASSUMED, launch_costs()])
def test_text_reads_back(costs: LaunchCosts) -> None:
    assert from_text(to_text(costs)) == costs


def sealed(**changes: Any) -> str:
    content = json.loads(to_text(COSTED))
    del content["blake3"]
    return FORM.seal(content | changes)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{}", "digest"),
        (to_text(COSTED).replace("700", "701"), "digest"),
        (to_text(COSTED) + "\n", "canonical"),
        (sealed(version=3), "version 3, not 4"),
        (sealed(more=1), "canonical"),
        (sealed(source={}), "missing"),
        (sealed(source={"backend": "", "device": "", "driver": 1}), "CostSource.driver"),
        (sealed(taken_at_s=-1), "LaunchCosts.taken_at_s"),
        (sealed(costs=None), "items"),
        (sealed(costs={"launch": {}}), "provenance"),
        (sealed(costs={"other": None}), "other"),
        (sealed(costs={}), "canonical"),
        (sealed(kernels={"a": None}), "not subscriptable"),
        (sealed(kernels={"a": {"provenance": "guessed"}}), "guessed"),
        (sealed(costs={"launch": {**json.loads(to_text(COSTED))["costs"]["launch"], "median_ns": 1.5}}), "median_ns"),
    ],
)
def test_malformed(text: str, why: str) -> None:
    with pytest.raises(MalformedJson, match=r"not launch costs: .*Fix: measure them again") as caught:
        from_text(text)
    assert why in str(caught.value)


def test_digests_of_other_forms_do_not_match() -> None:
    with pytest.raises(MalformedJson, match="digest"):
        SealedForm(b"another", MalformedJson).unseal(to_text(COSTED))
