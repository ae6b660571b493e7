"""Saturation: bounds, equal bits, explanations that replay, and faults that are noticed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from support.egraphs.extraction_costs import cost_of_term
from support.egraphs.terms import (
    ALL_RULES,
    SMALL,
    parsed,
    random_bits,
    random_expression,
    replay,
    saturate,
    types_for,
    value,
)
from vyre.domain.dialects.laws.law import Law
from vyre.domain.graphs.extraction import Alternatives, cheapest_trees, exchange, search, term
from vyre.domain.ir.expr import Expr, Var, walk
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.text_printer import expression_text
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph import saturate as module
from vyre.domain.optimize.egraph.explanation import FalseStep
from vyre.domain.optimize.egraph.graph import Contradiction, EGraph, Reason, Why
from vyre.domain.optimize.egraph.heads import cost_of
from vyre.domain.optimize.egraph.rules import Rules
from vyre.domain.optimize.egraph.windows import Scope, window_of

U32, I32, F32 = ScalarType.U32, ScalarType.I32, ScalarType.F32
TYPES = (U32, I32, ScalarType.U64, F32, ScalarType.F64)


def _checked(expr: Expr, dtype: ScalarType, rules: Rules = ALL_RULES, seed: int = 0) -> Expr:
    """The saturated form, after its bits on random operands and its explanation were seen to be right."""
    random = Random(seed)
    found = saturate(expr, dtype, rules)
    for _ in range(20):
        bits = random_bits(random, dtype)
        assert value(found.expr, dtype, bits) == value(expr, dtype, bits), expression_text(expr)
    assert replay(expr, found.explanation(), dtype, rules) == found.expr
    assert found.cost <= found.source_cost and (found.expr is expr) is (found.term == found.source_term)
    assert sum(1 for _ in walk(found.expr)) <= sum(1 for _ in walk(expr))
    return found.expr


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("first", [0, 20])
def test_random_expressions_keep_their_bits_and_are_explained(dtype: ScalarType, first: int) -> None:
    changed = 0
    for seed in range(first, first + 20):
        expr = random_expression(Random(f"{dtype.text} {seed}"), dtype, 4)
        changed += _checked(expr, dtype, seed=seed) is not expr
    assert changed > 2


def test_the_same_work_is_done_every_time() -> None:
    expr = parsed("((x & y) + (x | y)) * 3u - (z ^ z + 0u) * 2u")
    first, second = saturate(expr, U32), saturate(expr, U32)
    assert first.graph.heads == second.graph.heads and first.graph.operands == second.graph.operands
    assert first.explanation() == second.explanation()


def test_bounds_hold() -> None:
    expr = parsed("x + y + z + w + 1u")
    for nodes in (20, 200):
        found = saturate(expr, U32, limits=SMALL._replace(nodes=nodes))
        assert len(found.graph) <= nodes + 40 and not found.is_complete  # the last match may add its terms
    assert saturate(expr, U32, limits=SMALL._replace(rounds=1)).rounds == 1
    idle = saturate(parsed("x"), U32)
    assert idle.is_complete and idle.expr == Var("x") and idle.explanation() == ()


def test_locals_stand_for_their_values() -> None:
    definitions = {"y": parsed("x ^ 255u"), "z": parsed("y ^ 15u")}
    expr = parsed("(z ^ 15u) ^ 255u")
    found = saturate(expr, U32, definitions=definitions)
    assert found.expr == Var("x")
    assert replay(expr, found.explanation(), U32, definitions=definitions) == Var("x")
    with pytest.raises(FalseStep):
        replay(expr, found.explanation(), U32, definitions={"y": parsed("x ^ 254u")})


def test_a_step_that_is_no_instance_of_its_law_is_refused() -> None:
    expr = parsed("x * 8u + 0u")
    steps = saturate(expr, U32).explanation()
    for number, step in enumerate(steps):
        for wrong in (
            step._replace(after=parsed("x")),
            step._replace(law="add.commute"),
            step._replace(place=(*step.place, 0)) if step.place else step._replace(before=parsed("y")),
        ):
            with pytest.raises((FalseStep, IndexError)):
                replay(expr, (*steps[:number], wrong, *steps[number + 1 :]), U32)


# ------------------------------------------------------------------------------ seeded faults

FALSE_LAWS = {
    "(x + 0u) * y": Law("false.zero", "x + 0", "0", frozenset({U32})),
    "x * 2u - (y ^ x)": Law("false.sub", "x - y", "y", frozenset({U32})),
    "((x << 20u) << 20u) + y": Law(
        "false.shift", "(x << a) << b", "x << (a + b)", frozenset({U32}), {"a": U32, "b": U32}, "a < 32u and b < 32u"
    ),
    "(x - x) * y": Law("false.float", "x - x", "0.0", frozenset({F32})),
}


@pytest.mark.parametrize("text", FALSE_LAWS)
def test_a_false_law_is_noticed(text: str) -> None:
    law = FALSE_LAWS[text]
    (dtype,) = law.types
    with pytest.raises((AssertionError, Contradiction)):
        _checked(parsed(text), dtype, Rules((law,)))


def test_a_union_too_many_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = EGraph.term

    def joining(graph: EGraph, head: object, operands: tuple[int, ...] = ()) -> int:
        made = plain(graph, head, operands)  # type: ignore[arg-type]
        if len(operands) == 2 and graph.dtype(made) is graph.dtype(operands[1]):
            graph.union(made, operands[1], Reason(Why.CONGRUENCE))
        return made

    monkeypatch.setattr(EGraph, "term", joining)
    with pytest.raises((AssertionError, FalseStep, Contradiction, ValueError)):
        for seed in range(20):
            _checked(random_expression(Random(seed), U32, 4), U32)


def test_a_stale_cost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extraction by costs that are not those of the nodes misses the best form, and gives no dearer one."""
    expr, best = parsed("x / 8u"), parsed("x >> 3u")
    assert saturate(expr, U32).expr == best
    plain = module._alternatives

    def stale(graph: EGraph, root: int, costs: Mapping[int, int]) -> tuple[list[list[int]], Alternatives]:
        is_shift = [head.payload is BinaryOp.SHR for head in graph.heads]
        return plain(graph, root, {term: costs[term] + 1_000_000 * is_shift[term] for term in range(len(graph))})

    monkeypatch.setattr(module, "_alternatives", stale)
    found = saturate(expr, U32)
    assert found.expr != best and found.cost <= found.source_cost


@pytest.mark.parametrize("seed", range(120))
def test_a_form_made_for_a_window_is_that_of_every_window_with_its_key(seed: int) -> None:
    expr = random_expression(Random(seed), U32, 3)
    names = {"x": "y", "y": "z", "z": "w", "w": "x"}
    renamed = rebuilt(expr, lambda node: Var(names.get(node.name, node.name)) if type(node) is Var else node, {})
    found, other = saturate(expr, U32), saturate(renamed, U32)
    scope = Scope(types_for(U32))
    assert window_of(expr, scope, SMALL.window).key == window_of(renamed, scope, SMALL.window).key
    assert found.form().of(window_of(expr, scope, SMALL.window)) == found.expr
    assert found.form().of(window_of(renamed, scope, SMALL.window)) == other.expr


# ------------------------------------------------------------------------------ extraction


def _all_terms(classes: Alternatives) -> list[dict[int, int]]:
    """Every choice of a node for each class."""
    found: list[dict[int, int]] = [{}]
    for c, own in enumerate(classes.own):
        found = [{**chosen, c: n} for chosen in found for n in range(len(own))]
    return found


@pytest.mark.parametrize("seed", range(60))
def test_the_search_finds_the_cheapest_of_all_terms_of_a_small_graph(seed: int) -> None:
    random = Random(seed)
    count = random.randint(2, 6)
    children = [
        [tuple(random.choices(range(count), k=random.randint(0, 2))) for _ in range(random.randint(1, 3))]
        for _ in range(count)
    ]
    own = [[random.randint(1, 9) for _ in nodes] for nodes in children]
    classes = Alternatives(own, children)
    trees, chosen = cheapest_trees(classes)
    if 0 not in trees:
        return
    shared = dict(chosen)
    improved = exchange(classes, 0, shared)
    exact = dict(shared)
    best = search(classes, 0, exact, 100_000)
    costs = [cost_of_term(classes, 0, one) for one in _all_terms(classes) if term(classes, 0, one)]
    assert min(costs) == best == cost_of_term(classes, 0, exact)
    assert best <= improved == cost_of_term(classes, 0, shared) <= cost_of_term(classes, 0, chosen) <= trees[0]


def test_no_cost_is_zero() -> None:
    for dtype in TYPES:
        for seed in range(30):
            graph = saturate(random_expression(Random(seed), dtype, 3), dtype).graph
            assert all(cost_of(head) > 0 for head in graph.heads)
