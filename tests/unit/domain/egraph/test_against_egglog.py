"""Known identities: saturation finds forms at least as small as egglog finds with the same rules."""

from __future__ import annotations

from random import Random

import pytest

from support.egraphs.corpus import SIGNED, UNSIGNED
from support.egraphs.egglog_peer import SHARED, Peer
from support.egraphs.terms import parsed, random_bits, replay, types_for, value
from support.profiles import SOAK
from vyre.domain.ir.expr import walk
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.saturate import Limits, Saturated, saturated
from vyre.domain.optimize.egraph.windows import Scope

U32, I32 = ScalarType.U32, ScalarType.I32
TABLES = ((U32, UNSIGNED), (I32, SIGNED))
CORPUS = [(text, dtype, size) for dtype, table in TABLES for text, size in table.items()]
LIMITS = Limits(nodes=2_000, matches=400)


def _smallest(text: str, dtype: ScalarType) -> Saturated:
    """The saturation by which every node costs the same."""
    return saturated(parsed(text), SHARED, Scope(types_for(dtype)), LIMITS, cost=lambda head: 1)


def test_there_are_at_least_sixty_expressions() -> None:
    assert len(CORPUS) >= 60
    assert sum(1 for text, _, size in CORPUS if size < sum(1 for _ in walk(parsed(text)))) > 0.9 * len(CORPUS)


@pytest.mark.parametrize(("text", "dtype", "size"), CORPUS, ids=[text for text, _, _ in CORPUS])
def test_forms_are_at_least_as_small_as_those_of_egglog(text: str, dtype: ScalarType, size: int) -> None:
    expr, found = parsed(text), _smallest(text, dtype)
    assert sum(1 for _ in walk(found.expr)) <= size
    assert replay(expr, found.explanation(), dtype) == found.expr
    random = Random(text)
    for _ in range(20):
        bits = random_bits(random, dtype)
        assert value(found.expr, dtype, bits) == value(expr, dtype, bits)


@pytest.mark.thorough
def test_egglog_finds_what_is_recorded() -> None:
    pytest.importorskip("egglog", reason="egglog is not installed; its sizes are recorded")
    every = 1 if SOAK else 20
    for dtype, table in TABLES:
        peer = Peer(SHARED, dtype)
        for text, size in [*table.items()][::every]:
            found, form = peer.smallest(parsed(text), 2)
            assert sum(1 for _ in walk(_smallest(text, dtype).expr)) <= found, form
            assert found >= size, form
