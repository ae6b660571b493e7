"""What a config for another candidate is, and where one of another launch may stand in."""

from __future__ import annotations

import pytest

from support.small_programs import square_program
from vyre import Program, ProgramBuilder, u32
from vyre.app.tuning.launches import TunedLaunch, tuned_launch
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput
from vyre.domain.geometry import LaunchLimits
from vyre.domain.tuning import Candidate

LIMITS = LaunchLimits("fake", 256)


def launched(elements: int, config: DispatchConfig | None = None, program: Program | None = None) -> TunedLaunch:
    return tuned_launch(program or square_program(), (4 * elements,), config or DispatchConfig(), LIMITS)


def unguarded() -> Program:
    with ProgramBuilder("unguarded", workgroup=64) as p:
        y = p.output("y", u32, count=100_000)
        p.input("x", u32)
        y[p.global_id()] = 1
    return p.build()


def test_sizes_end_at_the_limit_of_the_backend() -> None:
    assert launched(1000).sizes().sizes == (64, 32, 128, 256)
    assert launched(1000).why_not(Candidate(512)) == "a workgroup of the device has at most 256 lanes"


@pytest.mark.parametrize(
    ("config", "lanes"),
    [
        (DispatchConfig(), 1000),
        (DispatchConfig(extent=(700,)), 700),
        (DispatchConfig(grid=(3, 1, 1)), 192),
        (DispatchConfig(grid=(3, 5, 2)), 1920),
        (DispatchConfig(grid=(3, 5, 1), workgroup=(8, 4, 2)), 24 * 40),
    ],
)
def test_lanes_are_those_asked_for_over_all_axes(config: DispatchConfig, lanes: int) -> None:
    assert launched(1000, config).lanes == lanes


def test_a_size_of_one_launch_may_not_do_for_another_of_its_bucket() -> None:
    """128 lanes cover 1024 lanes exactly, but 960 only with 64 more that do something."""
    grid = DispatchConfig(grid=(16, 1, 1)), DispatchConfig(grid=(15, 1, 1))
    fits, does_not = (launched(1, config, unguarded()) for config in grid)
    assert fits.why_not(Candidate(128)) is None
    assert does_not.why_not(Candidate(128)) == "it launches 1024 lanes, not 960, and 100000 may have an effect"


def test_a_program_that_is_tied_to_its_size_says_why() -> None:
    with ProgramBuilder("tied", workgroup=64) as p:
        p.output("y", u32, count=64)[p.global_id()] = p.local_id()
        p.input("x", u32)
    launch = launched(64, program=p.build())
    assert launch.why_not(Candidate(64)) is None
    assert launch.why_not(Candidate(32)) == "it uses ids of workgroups, or of lanes in them"
    assert launch.why_not(Candidate(48)) == "it uses ids of workgroups, or of lanes in them"


def test_a_size_that_is_not_tried_is_no_stand_in() -> None:
    assert launched(1000).why_not(Candidate(48)) == "48 lanes are not tried"


def test_the_declared_candidate_leaves_the_config_alone() -> None:
    config = DispatchConfig(label="mine")
    assert launched(1000, config).config_of(Candidate(64)) is config


def test_inputs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no multiple"):
        tuned_launch(square_program(), (3,), DispatchConfig(), LIMITS)
