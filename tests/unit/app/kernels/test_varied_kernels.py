"""Kernels whose tile is a static parameter: its value sizes the workgroup, and the tuner may choose it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import vyre
from vyre import In, Out, Static, f32, like, u32
from vyre.app.tuning.report import TuningReport, TuningSource
from vyre.app.tuning.tuner import WRONG_BYTES, TuningSettings
from vyre.domain.errors import BuildError, InvalidInput, KernelSourceError
from vyre.domain.tuning import Candidate, TimeKind
from vyre.domain.tuning_pins import Pin, Pins, pins_of, pins_text
from vyre.policies.tuning.successive_halving import HalvingThresholds

rng = np.random.default_rng(5)
A = rng.integers(0, 16, (37, 50)).astype(np.float32)
B = rng.integers(0, 16, (50, 29)).astype(np.float32)
WORDS = rng.integers(0, 2**32, 700, dtype=np.uint32)
SHORT = HalvingThresholds(first_round=1, growth=1, final_pairs=5, error=0.05)


@vyre.kernel(workgroup=("tile", "tile"))
def product(tile: Static[int], a: In[f32, 2], b: In[f32, 2], c: Out[f32, Literal["a.shape[0], b.shape[1]"]]) -> None:
    """The tiled matrix product of the gallery, of any tile."""
    tile_a, tile_b = vyre.workgroup_array(f32, (tile, tile)), vyre.workgroup_array(f32, (tile, tile))
    x, y = vyre.local_id(0), vyre.local_id(1)
    row, col = vyre.global_id(1), vyre.global_id(0)
    total = 0.0
    for first in range(0, a.shape[1], tile):
        tile_a[y, x] = 0.0
        tile_b[y, x] = 0.0
        if row < a.shape[0] and first + x < a.shape[1]:
            tile_a[y, x] = a[row, first + x]
        if first + y < b.shape[0] and col < b.shape[1]:
            tile_b[y, x] = b[first + y, col]
        vyre.barrier()
        for k in range(tile):
            total = vyre.fma(tile_a[y, k], tile_b[k, x], total)
        vyre.barrier()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@vyre.kernel(workgroup="lanes")
def reduction(lanes: Static[int], src: In[u32], total: Out[u32, 1]) -> None:
    """The tree reduction of the gallery, of any power of two, whose workgroups add up their sums."""
    s = vyre.workgroup_array(u32, lanes)
    lane = vyre.local_id()
    s[lane] = src[vyre.global_id()]
    vyre.barrier()
    stride = u32(lanes // 2)
    while stride > 0:
        if lane < stride:
            s[lane] += s[lane + stride]
        vyre.barrier()
        stride = stride >> 1
    if lane == 0:
        total.atomic_add(0, s[0])


@vyre.kernel(workgroup="lanes")
def scan(lanes: Static[int], data: In[u32], sums: Out[u32, like("data")]) -> None:
    """The scan of the gallery, of any power of two: every workgroup reads what lies before it."""
    a, b = vyre.workgroup_array(u32, lanes), vyre.workgroup_array(u32, lanes)
    i, lane, group = vyre.global_id(), vyre.local_id(), vyre.group_id()
    a[lane] = data[i]
    vyre.barrier()
    distance = u32(1)
    while distance < lanes:
        b[lane] = a[lane]
        if lane >= distance:
            b[lane] = a[lane] + a[lane - distance]
        vyre.barrier()
        a[lane] = b[lane]
        vyre.barrier()
        distance = distance << 1
    before = u32(0)
    for earlier in range(group * lanes):
        before += data[earlier]
    if i < data.shape[0]:
        sums[i] = before + a[lane]


@vyre.kernel(workgroup="lanes")
def partial_sums(lanes: Static[int], src: In[u32], sums: Out[u32, like("src")]) -> None:
    """A kernel whose result depends on its workgroup."""
    s = vyre.workgroup_array(u32, 1)
    s.atomic_add(0, src[vyre.global_id()])
    vyre.barrier()
    if vyre.local_id() == 0:
        sums[vyre.group_id()] = s[0]


CASES: dict[str, tuple[Any, str, dict[str, Any], tuple[int, ...], tuple[str, Any]]] = {
    "product": (product, "tile", {"tile": 16, "a": A, "b": B}, (4, 8, 16), ("c", A @ B)),
    "reduction": (
        reduction,
        "lanes",
        {"lanes": 64, "src": WORDS},
        (32, 64, 128),
        ("total", WORDS.sum(dtype=np.uint32)),
    ),
    "scan": (scan, "lanes", {"lanes": 64, "data": WORDS}, (32, 128), ("sums", np.cumsum(WORDS, dtype=np.uint32))),
}


def tuned(session: vyre.Session, name: str, *values: int, **settings: Any) -> TuningReport:
    kernel, parameter, inputs, usual, _ = CASES[name]
    return session.tune(
        kernel,
        inputs,
        vary={parameter: values or usual},
        settings=TuningSettings(thresholds=SHORT, profiles=False, **settings),
    )


@pytest.fixture(params=["reference", "cpu"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=tmp_path / "cache") as opened:
        yield opened


@pytest.mark.parametrize("name", CASES)
def test_a_static_parameter_sizes_the_workgroup(name: str, session: vyre.Session) -> None:
    kernel, parameter, inputs, values, (output, expected) = CASES[name]
    for value in values:
        result = session.dispatch(kernel, inputs | {parameter: value})[output]
        np.testing.assert_array_equal(result.reshape(np.shape(expected)), expected)
        program = kernel.specialize(**{parameter: value})
        assert program.workgroup_size == ((value, value, 1) if name == "product" else (value, 1, 1))


@pytest.mark.parametrize("name", CASES)
def test_other_tiles_are_candidates_with_the_same_bytes(name: str, session: vyre.Session) -> None:
    _, parameter, inputs, values, _ = CASES[name]
    report = tuned(session, name)
    others = [value for value in values if value != inputs[parameter]]
    assert [one for one in report.candidates if one.constants] == [
        Candidate(value, f"{parameter}={value}") for value in others
    ]
    assert report.rejected == () and str(report.candidates[-1]) == f"workgroup {others[-1]}, {parameter}={others[-1]}"
    again = tuned(session, name)
    assert again.source is TuningSource.STORE and again.candidates == report.candidates
    more = tuned(session, name, *values, 256 if name != "product" else 2)
    assert more.source is TuningSource.RUN  # another tile was asked for


def test_other_bytes_are_refused(session: vyre.Session) -> None:
    inputs: dict[str, Any] = {"lanes": 64, "src": WORDS}
    report = session.tune(partial_sums, inputs, vary={"lanes": (32, 128)}, settings=TuningSettings(thresholds=SHORT))
    assert [str(one.candidate) for one in report.rejected if one.reason == WRONG_BYTES] == [
        "workgroup 32, lanes=32",
        "workgroup 128, lanes=128",
    ]
    assert report.winner is None


def test_a_tile_that_is_too_large_is_refused(session: vyre.Session) -> None:
    report = tuned(session, "product", 16, 4096)
    (refused,) = report.rejected
    assert refused.candidate.profile == "tile=4096" and refused.reason


def test_the_winner_is_stored_and_used(tmp_path: Path) -> None:
    """The model of this backend counts operations, the same in every run."""
    kernel, _, inputs, _, (output, expected) = CASES["reduction"]
    with vyre.open("cuda-machine", cache=tmp_path / "cache") as session:
        report = tuned(session, "reduction")
        assert report.winner is not None and report.winner.profile in ("lanes=32", "lanes=128")
        assert f"with {report.winner}" in report.why
        assert tuned(session, "reduction").winner == report.winner
        choice = session.tuned(kernel, inputs)
        assert (choice.source, dict(choice.constants)) == (TuningSource.STORE, report.winner.constants)
        assert session.dispatch(kernel, inputs, tune=True)[output] == expected
        program = kernel.specialize(lanes=64)
        named = {"src": WORDS}
        assert session.dispatch(program, named, tune=True)[output] == expected
        assert "its grid is of other workgroups" in session.tuned(kernel[11], inputs).why
        assert len(session.export_pins(tmp_path / "pins.json")) == 1
    with vyre.open("cuda-machine", cache=False, pins=tmp_path / "pins.json") as session:
        assert dict(session.tuned(kernel, inputs).constants) == report.winner.constants


def test_a_pinned_tile_is_what_runs(session: vyre.Session) -> None:
    inputs: dict[str, Any] = {"lanes": 64, "src": WORDS}
    settings = TuningSettings(thresholds=SHORT, profiles=False)
    key = session.tune(partial_sums, inputs, vary={"lanes": (32,)}, settings=settings).key
    pins = Pins.of([Pin(key, Candidate(128, "lanes=128"), TimeKind.HOST)])
    assert pins_of(pins_text(pins)) == pins
    with vyre.open(session.backend, cache=False, pins=pins) as pinned:
        assert str(pinned.tuned(partial_sums, inputs).why) == "workgroup 128, lanes=128 is pinned"
        ran = pinned.dispatch(partial_sums, list(inputs.values()), tune=True)["sums"]
        np.testing.assert_array_equal(ran, pinned.dispatch(partial_sums, inputs | {"lanes": 128})["sums"])
        assert (ran != pinned.dispatch(partial_sums, inputs)["sums"]).any()


def test_wrong_names_and_values_are_refused(session: vyre.Session) -> None:
    inputs: dict[str, Any] = {"lanes": 64, "src": WORDS}
    wrong: list[tuple[Any, str]] = [
        ({"tile": (8,)}, "vary: `tile` is no static parameter.*lanes"),
        ({"lanes": ("a",)}, "`lanes` of partial_sums is 'a'"),
        ({"lanes": 8}, "vary"),
        (("lanes",), "vary"),
    ]
    for vary, message in wrong:
        with pytest.raises(InvalidInput, match=message):
            session.tune(partial_sums, inputs, vary=vary)
    with pytest.raises(InvalidInput, match="no static parameter"):
        session.tune(partial_sums.specialize(lanes=64), {"src": WORDS}, vary={"lanes": (8,)})
    with pytest.raises(KernelSourceError, match=r"workgroup: `rows` is no static parameter.*Fix: annotate"):

        @vyre.kernel(workgroup=(8, "rows"))
        def unknown(rows: u32, x: vyre.InOut[f32]) -> None:
            x[vyre.global_id()] = 1.0

    with pytest.raises(BuildError, match="is no workgroup size"):
        partial_sums.specialize(lanes=0)
