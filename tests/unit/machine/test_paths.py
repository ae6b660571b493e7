"""Which blocks of an entry may follow which: sets and searches give the same answers."""

from __future__ import annotations

import random

import pytest

from vyre.adapters.cuda.machine.paths import FEW_BLOCKS, Edges, Paths, SearchPaths, SetPaths, paths

BUDGET = 60
"""Blocks of a random entry, about."""


def _entry(seed: int) -> Edges:
    """Edges of random structured code: branches with and without `else`, loops with breaks, and early ends."""
    chance = random.Random(seed)
    edges: list[list[int]] = []

    def block() -> int:
        edges.append([])
        return len(edges) - 1

    def body(start: int, depth: int, breaks: list[int] | None) -> int | None:
        """Writes blocks that follow ``start``; returns the block at the end, or None if none is reached."""
        here = start
        for _ in range(chance.randrange(4)):
            kind = chance.randrange(6) if depth < 4 and len(edges) < BUDGET else 5
            if kind == 0:  # a loop with its test at the end
                head = block()
                edges[here].append(head)
                exits: list[int] = []
                last = body(head, depth + 1, exits)
                after_jumps = list(exits)
                if last is not None:
                    edges[last].append(head)
                    after_jumps.append(last)
                if not after_jumps:
                    return None
                here = block()
                for exit_ in after_jumps:
                    edges[exit_].append(here)
            elif kind in (1, 2):
                then = block()
                edges[here].append(then)
                ends = [body(then, depth + 1, breaks)]
                if kind == 1:
                    otherwise = block()
                    edges[here].append(otherwise)
                    ends.append(body(otherwise, depth + 1, breaks))
                else:
                    ends.append(here)
                alive = [end for end in ends if end is not None]
                if not alive:
                    return None
                here = block()
                for end in alive:
                    edges[end].append(here)
            elif kind == 3 and depth:
                edges[here].append(-1)
                return None
            elif kind == 4 and breaks is not None:
                breaks.append(here)
                return None
        return here

    last = body(block(), 0, None)
    if last is not None:
        edges[last].append(-1)
    return tuple(map(tuple, edges))


def _follows(found: Paths, block: int, later: int) -> bool:
    front = found.front()
    front.add(block)
    return front.may_reach(later)


@pytest.mark.parametrize("seed", range(60))
def test_a_search_finds_what_the_sets_hold(seed: int) -> None:
    edges = _entry(seed)
    sets, search = SetPaths(edges), SearchPaths(edges)
    assert sets.loops == search.loops
    pairs = [(block, later) for later in range(len(edges)) for block in range(later)]
    random.Random(seed).shuffle(pairs)
    assert [pair for pair in pairs if _follows(sets, *pair) is not _follows(search, *pair)] == []


@pytest.mark.parametrize("seed", range(20))
def test_fronts_of_several_blocks_agree(seed: int) -> None:
    edges, chance = _entry(seed), random.Random(seed)
    for _ in range(50):
        blocks = sorted(chance.sample(range(len(edges)), min(len(edges), 5)))
        answers = []
        for found in (SetPaths(edges), SearchPaths(edges)):
            front, reached = found.front(), []
            for block in blocks:
                reached.append(front.may_reach(block))
                front.add(block)
            answers.append(reached)
        assert answers[0] == answers[1]


def test_large_entries_are_searched() -> None:
    chain = tuple((number + 1,) for number in range(FEW_BLOCKS))
    assert isinstance(paths((*chain[:-1], (-1,))), SetPaths)
    large = paths((*chain, (-1,)))
    assert isinstance(large, SearchPaths)
    assert _follows(large, 0, FEW_BLOCKS)
