"""Bytes that launches move, and the time that a device takes for them."""

from __future__ import annotations

import pytest

from support.launch_costs import launch_costs, measured
from vyre import ProgramBuilder, f32, u32
from vyre.domain.analysis.moved_bytes import moved_nbytes
from vyre.domain.ir.program import Program
from vyre.domain.launch_costs import TRAFFIC_BYTES, Provenance
from vyre.domain.traffic import Traffic, traffic_time

KIB, MIB = 1 << 10, 1 << 20
COSTS = launch_costs(
    traffic_64_kib=measured(1_024, 10), traffic_1_mib=measured(32_768, 64), traffic_64_mib=measured(8 << 20, 100)
)


def time(moved: int, held: int) -> int:
    found = traffic_time(Traffic(moved, held), COSTS)
    assert found is not None
    return found.median_ns


def test_arrays_that_were_timed_take_their_time() -> None:
    assert time(64 * KIB, 64 * KIB) == 1_024
    assert time(MIB, MIB) == 32_768
    assert time(64 * MIB, 64 * MIB) == 8 << 20


def test_moving_more_within_the_same_arrays_takes_longer_in_proportion() -> None:
    assert time(5 * MIB, MIB) == 5 * 32_768
    assert time(0, MIB) == 0


def test_small_and_large_arrays_are_as_fast_as_the_smallest_and_the_largest() -> None:
    assert time(KIB, KIB) == 1_024 // 64
    assert time(512 * MIB, 512 * MIB) == 8 * (8 << 20)


def test_between_two_sizes_the_time_is_interpolated() -> None:
    middle = (64 * KIB + MIB) // 2
    assert time(middle, middle) == (1_024 + 32_768) // 2
    times = [time(held, held) for held in range(64 * KIB, 2 * MIB, 32 * KIB)]
    assert times == sorted(times)


def test_what_nobody_timed_here_tells_nothing() -> None:
    assert traffic_time(Traffic(MIB, MIB), launch_costs()) is None
    guessed = launch_costs(traffic_1_mib=measured(7, provenance=Provenance.ASSUMED))
    assert traffic_time(Traffic(MIB, MIB), guessed) is None
    found = traffic_time(Traffic(MIB, MIB), launch_costs(traffic_1_mib=measured(7, 2, Provenance.EMULATED)))
    assert found is not None and (found.median_ns, found.standard_error_ns) == (7, 2)
    assert found.provenance is Provenance.EMULATED


def test_sizes_ascend() -> None:
    assert list(TRAFFIC_BYTES.values()) == sorted(TRAFFIC_BYTES.values())


# ---------------------------------------------------------------- bytes of a launch
def program(kind: str) -> Program:
    with ProgramBuilder(kind, workgroup=64) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x) if kind == "fills" else p.inout("y", u32)
        i = p.global_id()
        if kind == "measures":
            y[i] = x.length
        elif kind == "adds":
            y[i] = x[i] + y[i]
        elif kind == "counts":
            y.atomic_add(x[i], 1)
        else:
            y[i] = x[i]
    return p.build()


@pytest.mark.parametrize(
    ("kind", "moved"),
    [
        pytest.param("copies", 100 + 10, id="one array is read and one written"),
        pytest.param("adds", 100 + 2 * 10, id="the second is read too"),
        pytest.param("fills", 100 + 2 * 10, id="an output is zeroed and written"),
        pytest.param("counts", 100 + 2 * 10, id="an atomic reads and writes"),
        pytest.param("measures", 10, id="a length is read from no memory"),
    ],
)
def test_the_bytes_of_a_launch_are_those_that_it_reads_and_writes(kind: str, moved: int) -> None:
    assert moved_nbytes(program(kind), (100, 10)) == moved


def test_uses_are_those_of_the_whole_body() -> None:
    with ProgramBuilder("nested", workgroup=64) as p:
        x, y = p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < x.length), p.for_(0, 4) as k:
            y[k] = x[i]
    assert moved_nbytes(p.build(), (8, 4)) == 12
