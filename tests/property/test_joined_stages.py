"""Joined launches leave the bytes of the launches one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vyre
from support.optimizer.stage_chains import Chain, Chains, run, run_groups
from vyre.app.fusing import FusionLimits, plan_groups
from vyre.domain.fusion.joining import join_stages
from vyre.domain.fusion.stages import CannotJoin, JoinedStages
from vyre.domain.ir.program import Program

SEEDS = range(48)


@pytest.fixture(scope="module", params=["reference", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    if request.param == "cpu":
        pytest.importorskip("llvmlite")
    with vyre.open(request.param) as opened:
        yield opened


def share(session: vyre.Session, part: int, parts: int) -> range:
    """Seeds of one part; the emulated device, which is slow, takes a quarter of them."""
    every = parts * (4 if session.backend == "cuda-machine" else 1)
    return SEEDS[part::every]


def joinable(seed: int) -> tuple[Chain, JoinedStages]:
    """A random chain, shortened to stages that can be joined."""
    chain = Chains(seed).chain()
    while True:
        found = join_stages(chain.stages, chain.temporary)
        if isinstance(found, JoinedStages):
            return chain, found
        assert isinstance(found, CannotJoin) and len(chain.stages) > 1
        chain = chain.shortened(min(len(chain.stages) - 1, max(found.stage, 1)))


@pytest.mark.parametrize("part", range(6))
def test_joined_stages_have_the_bytes_of_the_stages(session: vyre.Session, part: int) -> None:
    for seed in share(session, part, 6):
        chain, found = joinable(seed)
        assert Program.from_wire(found.program.to_wire()).digest == found.program.digest
        assert Program.from_text(found.program.to_text()).digest == found.program.digest
        apart, fused = run(session, chain, None, seed), run(session, chain, found, seed)
        different = [name for name in fused if fused[name] != apart[name]]
        assert not different, (seed, different, found.program.to_text())


@pytest.mark.parametrize("part", range(3))
def test_groups_have_the_bytes_of_the_stages(session: vyre.Session, part: int) -> None:
    joined = 0
    for seed in share(session, part, 6):
        chain = Chains(1000 + seed).chain()
        limits = FusionLimits(grid_barriers=bool(seed % 2), most_live=8 if seed % 3 else 64)
        groups = plan_groups(chain.stages, chain.temporary, limits=limits)
        assert [number for group in groups for number in group.stages] == list(range(len(chain.stages)))
        joined += sum(group.joined is not None for group in groups)
        apart, fused = run(session, chain, None, seed), run_groups(session, chain, groups, seed)
        assert {name for name in fused if fused[name] != apart[name]} == set(), (seed, groups)
    assert joined or session.backend == "cuda-machine"  # which takes few chains
