"""Errors of limits name the place in the user's program: the declaration that is too large, or the program's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

import vyre
from support.small_programs import catalog_of
from vyre import DeviceLimitExceeded, DispatchConfig, Program, ProgramBuilder, f32, u32
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.missing import check_program
from vyre.ir import EventBuilder, SourceLocation
from vyre.testing.fakes import function_backend

LIMITS: Final = LaunchLimits(
    "small",
    max_invocations_per_workgroup=64,
    max_workgroup_size=(64, 8, 8),
    max_grid_size=(4, 4, 4),
    max_shared_memory_bytes=256,
    max_storage_buffer_bytes=1024,
)


def at(line: int) -> SourceLocation:
    return SourceLocation("prog.mini", line, 5, f"    line {line}")


def program(*, workgroup: int = 64, shared: tuple[int, ...] = (), count: int | None = None) -> Program:
    """A program that begins on line 1 and declares its buffer on line 2 and workgroup memory from line 3 on."""
    with ProgramBuilder("p", workgroup=workgroup, loc=at(1)) as p:
        y = p.inout("y", f32, count, loc=at(2))
        for number, elements in enumerate(shared):
            p.workgroup(f"s{number}", f32, elements, loc=at(3 + number))
        y[p.global_id()] = 1.0
    return p.build()


@pytest.mark.parametrize(
    ("made", "limit", "places"),
    [
        (program(workgroup=128), "max_invocations_per_workgroup", [1]),
        (program(shared=(65,)), "max_shared_memory_bytes", [3]),
        (program(shared=(32, 64)), "max_shared_memory_bytes", [3, 4]),
        (program(count=257), "max_storage_buffer_bytes", [2]),
    ],
)
def test_programs_above_a_limit(made: Program, limit: str, places: list[int]) -> None:
    with pytest.raises(DeviceLimitExceeded) as caught:
        check_program(made, LIMITS)
    error = caught.value
    assert error.limit == limit and error.loc is not None
    assert [place.line for place in error.loc.places] == places
    assert str(error).startswith(", ".join(f"prog.mini:{line}:5" for line in places) + ": the ")
    assert f"    line {places[0]}\n        ^" in str(error)


def test_launches_above_a_limit() -> None:
    made = program()
    for nbytes, grid, line in ((1028, (1, 1, 1), 2), (64, (5, 1, 1), 1), (64, (5, 1, 1), 1)):
        with pytest.raises(DeviceLimitExceeded) as caught:
            resolve_launch(made, (nbytes,), DispatchConfig(grid=grid), LIMITS)
        assert caught.value.loc == at(line)


def test_a_session_names_the_place_when_it_compiles() -> None:
    backend = function_backend(dict)
    small = replace(
        backend, profile=replace(backend.profile, max_invocations_per_workgroup=64, max_shared_memory_bytes=256)
    )
    with vyre.open(catalog=catalog_of(small)) as session:
        for made, line in ((program(workgroup=128), 1), (program(shared=(32, 64)), 3)):
            with pytest.raises(DeviceLimitExceeded) as caught:
                session.compile(made)
            assert caught.value.loc == at(line)
            (missing,) = session.missing(made)
            assert missing.locations == caught.value.loc.places


@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
def test_every_backend_names_the_place_of_a_workgroup(backend: str) -> None:
    made = program(workgroup=1 << 20)
    with vyre.open(backend) as session, pytest.raises(DeviceLimitExceeded) as caught:
        session.dispatch(made, [np.zeros(4, np.float32)])
    assert caught.value.loc == at(1)


@vyre.kernel(workgroup=1 << 20)
def doubled(x: vyre.In[f32], y: vyre.Out[f32, vyre.like("x")]) -> None:  # type: ignore[valid-type]
    i = vyre.global_id()
    y[i] = x[i] * f32(2)


def test_kernels_and_builders_in_python_have_a_place_too() -> None:
    with ProgramBuilder("p", workgroup=128) as p:
        p.inout("y", u32)[0] = 1
    for made in (p.build(), vyre.Program.from_text("program p workgroup_size 128, 1, 1 body { }")):
        with pytest.raises(DeviceLimitExceeded) as caught:
            check_program(made, LIMITS)
        if made.loc is not None:
            assert caught.value.loc == made.loc
    with vyre.open("cpu") as session, pytest.raises(DeviceLimitExceeded) as caught:
        session.dispatch(doubled, {"x": np.zeros(4, np.float32)})
    assert caught.value.loc is not None and caught.value.loc.file == __file__


def test_without_a_place_there_is_none() -> None:
    b = EventBuilder("p", workgroup=128)
    with pytest.raises(DeviceLimitExceeded) as caught:
        check_program(b.build(), LIMITS)
    assert caught.value.loc is None and str(caught.value).startswith("the number of lanes in a workgroup is 128")
