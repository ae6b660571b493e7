"""Joined launches leave the bytes of the launches one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vyre
from support.stage_chains import Chain, Chains, run
from vyre.domain.fusion.joining import join_stages
from vyre.domain.fusion.stages import CannotJoin, JoinedStages

SEEDS = range(120)


@pytest.fixture(scope="module", params=["reference", "cpu"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    if request.param == "cpu":
        pytest.importorskip("llvmlite")
    with vyre.open(request.param) as opened:
        yield opened


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
    for seed in SEEDS[part::6]:
        chain, found = joinable(seed)
        apart, fused = run(session, chain, None, seed), run(session, chain, found, seed)
        different = [name for name in fused if fused[name] != apart[name]]
        assert not different, (seed, different, found.program.to_text())
