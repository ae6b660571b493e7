"""The e-graph: classes, congruence, constants, and proofs that replay."""

from __future__ import annotations

import random

import pytest

from support.egraphs.terms import parsed, types_for
from vyre.domain.ir.expr import Binary, Literal, Var, children
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.explanation import CONSTANT, explained
from vyre.domain.optimize.egraph.graph import Contradiction, EGraph, Reason, Why
from vyre.domain.optimize.egraph.heads import Head
from vyre.domain.optimize.egraph.windows import Key, Scope, window_of

U32 = ScalarType.U32
LAW = Reason(Why.LAW, "test.law")
SUM = Head(Binary, BinaryOp.ADD, U32, U32)


def graph_of(*texts: str, commutes: bool = False) -> tuple[EGraph, list[int]]:
    graph = EGraph(types_for(U32), commuting=lambda head: "add.commute" if commutes and head == SUM else None)
    return graph, [graph.add(parsed(text)) for text in texts]


def test_terms_that_are_written_alike_are_one_term() -> None:
    graph, (first, second, other) = graph_of("x + y * 2u", "x + y * 2u", "y + x * 2u")
    assert first == second != other
    assert len(graph) == 7  # x, y, 2, y * 2, their sum, and x * 2, y + x * 2


def test_congruence_goes_up_through_every_use() -> None:
    graph, (x, y, first, second) = graph_of("x", "y", "(x + z) * (x + z) ^ x", "(y + z) * (x + z) ^ y")
    assert graph.find(first) != graph.find(second)
    graph.union(x, y, LAW)
    graph.rebuild()
    assert graph.find(first) == graph.find(second)
    assert len(graph.members(first)) == 1  # congruent terms have one representative


def test_operands_are_swapped_only_where_a_law_says_so() -> None:
    for commutes in (False, True):
        graph, (first, second) = graph_of("(x + y) * z", "(y + x) * z", commutes=commutes)
        assert (graph.find(first) == graph.find(second)) is commutes


def test_constants_fold_when_their_operands_become_constant() -> None:
    graph, (product, x, three) = graph_of("(x + 1u) * 5u", "x", "3u")
    assert graph.constant(product) is None
    graph.union(x, three, LAW)
    graph.rebuild()
    literal = graph.constant(product)
    assert literal is not None and graph.expression(literal) == Literal(U32, 20)
    laws = [step.law for step in explained(graph, product, literal)]
    assert laws == ["test.law", CONSTANT, CONSTANT]


def test_two_constants_are_not_equal() -> None:
    graph, (x, three, four) = graph_of("x", "3u", "2u + 2u")
    graph.union(x, three, LAW)
    with pytest.raises(Contradiction, match=r"Literal\(u32, 4\) is not Literal\(u32, 3\)"):
        graph.union(four, x, LAW)


def test_nans_of_different_bits_are_equal() -> None:
    graph = EGraph()
    first, second = (graph.add(parsed(f"f32({bits})")) for bits in ("0x7fc00000", "0xffc00001"))
    assert graph.union(first, second, LAW)
    zero, minus_zero = graph.add(parsed("0.0f")), graph.add(parsed("-0.0f"))
    with pytest.raises(Contradiction):
        graph.union(zero, minus_zero, LAW)


def test_terms_of_two_types_are_never_joined() -> None:
    graph, (x, comparison) = graph_of("x", "x < y")
    with pytest.raises(ValueError, match="two types"):
        graph.union(x, comparison, LAW)


def test_a_proof_names_each_law_in_its_direction() -> None:
    graph, (x, y, z, first, second) = graph_of("x", "y", "z", "bitnot(x) * w", "bitnot(z) * w")
    graph.union(x, y, Reason(Why.LAW, "one"))
    graph.union(z, y, Reason(Why.LAW, "two"))
    graph.rebuild()
    steps = explained(graph, first, second)
    assert [(step.law, step.forward, step.place) for step in steps] == [("one", True, (0, 0)), ("two", False, (0, 0))]
    assert [str(step) for step in steps] == ["x -> y  [one]", "y <- z  [two]"]
    with pytest.raises(ValueError, match="not known to be equal"):
        graph.proof(x, graph.add(parsed("w")))


def test_an_opaque_expression_is_a_leaf_of_its_own() -> None:
    sum_, other = parsed("x * y + 1u"), parsed("x * y")
    window = window_of(sum_, Scope(types_for(U32), type_of=lambda _: U32), 3)
    graph = EGraph(types_for(U32))
    terms = graph.add_window(window.entries)
    leaf = graph.operands[terms[window.root]][0]
    assert graph.operands[leaf] == () and graph.expression(leaf) is children(sum_)[0]
    assert graph.find(graph.add(other)) != graph.find(leaf)


def test_windows_with_one_key_differ_in_names_alone() -> None:
    def key(text: str, **values: str) -> Key:
        scope = Scope(types_for(U32), definitions={name: parsed(value) for name, value in values.items()})
        return window_of(parsed(text), scope, 40).key

    assert key("x * y + x") == key("z * w + z")
    assert key("x + y", x="z * 3u") == key("z + x", z="y * 3u")
    different = ["x * y + x", "x * y + y", "y + x * y", "x * y - x", "x * x + x", "x * 3u + x", "x * 4u + x"]
    assert len({key(text) for text in different}) == len(different)
    assert key("x + y", x="z * 3u") != key("x + y", y="z * 3u") != key("x + y")


def test_a_union_renews_the_keys_of_the_smaller_class_only(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = EGraph(types_for(U32))
    x, y = graph.add(parsed("x")), graph.add(parsed("y"))
    sums = [graph.term(SUM, (x, graph.add(Literal(U32, value)))) for value in range(1000)]
    one = graph.term(SUM, (y, graph.add(Literal(U32, 5))))
    renewed: list[int] = []
    key = EGraph._key

    def counted(self: EGraph, term: int) -> tuple[Head, tuple[int, ...]]:
        renewed.append(term)
        return key(self, term)

    monkeypatch.setattr(EGraph, "_key", counted)
    graph.union(x, y, LAW)
    graph.rebuild()
    assert graph.find(one) == graph.find(sums[5])
    assert renewed == [one]
    assert sorted(graph.users(y)) == sums


def test_a_class_that_becomes_constant_folds_its_own_users() -> None:
    graph, (many, x, one) = graph_of("(x + 1u) ^ (x + 2u) ^ (x + 3u)", "x", "1u")
    graph.union(one, x, LAW)
    graph.rebuild()
    literal = graph.constant(many)
    assert literal is not None and graph.expression(literal) == Literal(U32, 2 ^ 3 ^ 4)


@pytest.mark.parametrize("seed", range(20))
def test_classes_are_the_congruence_closure(seed: int) -> None:
    chance = random.Random(seed)
    names = [Head(Var, f"v{number}", U32) for number in range(8)]
    graph = EGraph(commuting=lambda head: None)
    terms = [graph.term(head) for head in names]
    for _ in range(150):
        terms.append(graph.term(SUM, (chance.choice(terms), chance.choice(terms))))
    stated: list[tuple[int, int]] = []
    for _ in range(25):
        stated.append((chance.choice(terms), chance.choice(terms)))
        graph.union(*stated[-1], LAW)
        if chance.random() < 0.5:
            graph.rebuild()
    graph.rebuild()
    classes = _closed(graph, stated)
    found = [graph.find(term) for term in range(len(graph))]
    assert len(set(found)) == len(set(classes)) == len(set(zip(found, classes, strict=True)))
    for term in range(len(graph)):
        users = {above for above in range(len(graph)) if found[term] in map(graph.find, graph.operands[above])}
        assert set(map(graph.find, graph.users(term))) == set(map(graph.find, users))


def _closed(graph: EGraph, stated: list[tuple[int, int]]) -> list[int]:
    """Returns the class of each term, by comparing all pairs of terms until nothing changes."""
    classes = list(range(len(graph)))

    def join(one: int, other: int) -> bool:
        a, b = classes[one], classes[other]
        classes[:] = [a if each == b else each for each in classes]
        return a != b

    for pair in stated:
        join(*pair)
    while True:
        first: dict[tuple[Head, tuple[int, ...]], int] = {}
        changed = False
        for term, head in enumerate(graph.heads):
            key = (head, tuple([classes[below] for below in graph.operands[term]]))
            changed |= join(first.setdefault(key, term), term)
        if not changed:
            return classes
