"""Building e-graphs: terms and columns, what is refused, and what is read of closed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from benchmarks.egraph_rivals import rows_of
from benchmarks.egraph_shapes import chain

import vyre
from support.egraphs.closures import random_egraph
from vyre import InvalidConfig, InvalidInput, Session
from vyre.egraph import ClosedEGraph, EGraph


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with vyre.open("reference") as made:
        yield made


def small() -> EGraph:
    """Returns a, b, f(a), f(b), g(f(a), f(b))."""
    graph = EGraph()
    a, b = graph.add("a"), graph.add("b")
    graph.add("g", graph.add("f", a), graph.add("f", b))
    return graph


def test_columns_hold_what_was_added() -> None:
    graph = small()
    graph.equate(0, 1)
    assert graph.operators.tolist() == [0, 1, 2, 2, 3]
    assert graph.offsets.tolist() == [0, 0, 0, 1, 2, 4]
    assert graph.children.tolist() == [0, 1, 2, 3]
    assert graph.equalities.tolist() == [[0, 1]]
    assert graph.classes.tolist() == [0, 1, 2, 3, 4]
    assert [graph.operator_name(n) for n in range(4)] == ["a", "b", "f", "g"]
    assert len(graph) == 5 and repr(graph) == "<EGraph of 5 term(s), 1 equality(ies)>"


def test_an_e_graph_of_its_own_columns_is_the_same() -> None:
    graph = random_egraph(7)
    again = EGraph.from_columns(graph.operators, graph.offsets, graph.children, graph.equalities)
    for name in ("operators", "offsets", "children", "equalities", "classes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(graph, name))
    assert again.operator_name(3) == "3"


def test_terms_are_added_to_columns_with_names(session: Session) -> None:
    graph = EGraph.from_columns([0, 1], [0, 0, 1], [0], names=["x", "f"])
    top = graph.add("f", 0)
    assert graph.add("y", top) == 3
    assert graph.operators.tolist() == [0, 1, 1, 2]
    assert graph.close(session).same(1, top)


def test_columns_are_copied() -> None:
    operators, classes = np.array([0, 1], np.uint32), np.array([7, 8], np.uint32)
    graph = EGraph.from_columns(operators, [0, 0, 0], (), classes=classes)
    operators[0] = classes[0] = 9
    graph.operators[1] = graph.classes[1] = 9
    assert (graph.operators.tolist(), graph.classes.tolist()) == ([0, 1], [7, 8])


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
def test_columns_have_any_type_of_whole_numbers(dtype: Any) -> None:
    graph = EGraph.from_columns(*(np.array(column, dtype) for column in ([0, 1], [0, 0, 1], [0], [[0, 1]])))
    assert graph.operators.dtype == graph.equalities.dtype == np.uint32


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EGraph.from_columns([0.5], [0, 0], ()), "operators is a list of float64"),
        (lambda: EGraph.from_columns([[0]], [0, 0], ()), "operators has 2 axes"),
        (lambda: EGraph.from_columns([-1], [0, 0], ()), "operators holds -1"),
        (lambda: EGraph.from_columns([2**32], [0, 0], ()), "operators holds 4294967296"),
        (lambda: EGraph.from_columns([True], [0, 0], ()), "operators is a list of bool"),
        (lambda: EGraph.from_columns([0], [0], ()), "offsets has 1 element"),
        (lambda: EGraph.from_columns([0], (), ()), "offsets has 0 element"),
        (lambda: EGraph.from_columns([0], [1, 1], [0]), "does not ascend from 0"),
        (lambda: EGraph.from_columns([0], [0, 2], [0]), "1 child"),
        (lambda: EGraph.from_columns([0, 0], [0, 1, 0], ()), "does not ascend"),
        (lambda: EGraph.from_columns([0], [0, 1], [1]), "children holds the class 1, which no term has"),
        (lambda: EGraph.from_columns([0], [0, 0], (), [(0, 4)]), "equalities holds the class 4"),
        (lambda: EGraph.from_columns([0], [0, 0], (), [0, 0]), r"shape \(k, 2\)"),
        (lambda: EGraph.from_columns([0], [0, 1], [0], classes=[5]), "children holds the class 0"),
        (lambda: EGraph.from_columns([0], [0, 0], (), classes=[5, 6]), "classes has 2 element"),
        (lambda: EGraph.from_columns([1], [0, 0], (), names=["f"]), r"operators holds 1, and there are 1 name"),
        (lambda: EGraph.from_columns([0], [0, 0], (), names=["f", "f"]), "two operators have one name"),
        (lambda: EGraph.from_columns([0], [0, 0], (), names="f"), "names='f'"),
        (lambda: EGraph.from_columns([0], [0, 0], (), names=[1]), r"names\[0\]=1"),  # type: ignore[list-item]
        (lambda: EGraph.from_columns([0], [0, 0], ()).add("f"), "no names of operators"),
        (
            lambda: EGraph.from_columns([0], [0, 0], (), classes=[0], names=["f"]).add("f"),
            "added to columns with classes",
        ),
        (lambda: small().add(3), "operator=3"),  # type: ignore[arg-type]
        (lambda: small().add(["f"]), "operator="),  # type: ignore[arg-type]
        (lambda: small().add("f", 5), "a child of 'f' is 5, and the e-graph has 5 term"),
        (lambda: small().add("f", -1), "is -1"),
        (lambda: small().add("f", True), "is True"),
        (lambda: small().add("f", "a"), "is 'a'"),  # type: ignore[arg-type]
        (lambda: small().equate(0, 9), "a side of an equality is 9"),
    ],
)
def test_what_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as error:
        make()
    assert "Fix: " in str(error.value)


def test_a_refused_term_leaves_no_trace() -> None:
    graph = small()
    for operator in ("f", "new"):
        with pytest.raises(InvalidInput):
            graph.add(operator, 0, 7)
    assert graph.offsets.tolist() == [0, 0, 0, 1, 2, 4] and len(graph.children) == 4
    graph.add("next")
    assert graph.operator_name(int(graph.operators[-1])) == "next" and graph.operators[-1] == 4


@pytest.mark.parametrize(
    ("options", "said"), [({"rows": 1}, "rows=1"), ({"slots": 1.5}, "slots=1.5"), ({"executor": "fast"}, "executor=")]
)
def test_options_are_checked(session: Session, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        small().close(session, **options)
    with pytest.raises(InvalidConfig, match="session=None"):
        small().close(None)  # type: ignore[arg-type]


def test_numbers_that_no_table_has(session: Session) -> None:
    for slots in (-1, 2**32):
        with pytest.raises(vyre.VyreError, match="slots") as error:
            small().close(session, slots=slots)
        assert "Fix: " in str(error.value)
    with pytest.raises(vyre.PlanError, match="no slots"):
        small().close(session, slots=0)


# ---------------------------------------------------------------- closed
@pytest.fixture
def closed(session: Session) -> ClosedEGraph:
    graph = small()
    graph.equate(0, 1)
    return graph.close(session)


def test_what_a_closed_e_graph_tells(closed: ClosedEGraph) -> None:
    assert closed.same(2, 3) and not closed.same(0, 2)
    assert closed.members(3).tolist() == [2, 3]
    assert (len(closed), closed.class_count) == (5, 3)
    assert closed.fixed_point is not None and closed.fixed_point.iterations == closed.rounds
    assert repr(closed) == f"<ClosedEGraph 5 term(s) in 3 class(es) after {closed.rounds} round(s)>"
    rows = closed.rows
    assert rows.terms.tolist() == [0, 1, 2, 4] and rows.children.tolist() == [0, 2, 2]


@pytest.mark.parametrize("term", [5, -1, True, "a", 1.0])
def test_terms_that_were_not_closed(closed: ClosedEGraph, term: Any) -> None:
    with pytest.raises(InvalidInput, match="5 were closed"):
        closed.same(0, term)
    with pytest.raises(InvalidInput, match="Fix: use the number of a term"):
        closed.members(term)


def test_the_cheapest_term(closed: ClosedEGraph) -> None:
    found = closed.extract(4)
    assert found is not None and (str(found), found.cost) == ("g(f(a), f(a))", 5)
    found = closed.extract(4, {"a": 3})
    assert found is not None and (str(found), found.cost) == ("g(f(b), f(b))", 5)
    found = closed.extract(4, {"a": 3, "f": 10}, shared=True)
    assert found is not None and found.cost == 12
    assert found.nodes == (("b", ()), ("f", (0,)), ("g", (1, 1)))


def test_a_cheaper_form_is_found_through_classes(session: Session) -> None:
    graph = EGraph()
    x, two, one = graph.add("x"), graph.add("2"), graph.add("1")
    product, shifted = graph.add("*", x, two), graph.add("<<", x, one)
    graph.equate(product, shifted)
    found = graph.close(session).extract(product, {"*": 4})
    assert str(found) == "<<(x, 1)"


def test_costs_are_not_rounded(session: Session) -> None:
    graph = EGraph()
    graph.equate(graph.add("a"), graph.add("b"))
    closed = graph.close(session)
    for cost in (0, 1, 2, 3, 2**64 - 2):
        found = closed.extract(0, {"a": cost, "b": cost + 1})
        assert found is not None and (str(found), found.cost) == ("a", cost)


def test_no_term_that_contains_itself_is_extracted(session: Session) -> None:
    graph = EGraph.from_columns([0], [0, 1], [0])
    assert graph.close(session).extract(0) is None


def test_deep_terms_are_extracted_without_recursion(session: Session) -> None:
    graph = EGraph()
    term = graph.add("x")
    for _ in range(3000):
        term = graph.add("f", term)
    found = graph.close(session).extract(term)
    assert found is not None and found.cost == len(found.nodes) == 3001
    with vyre.open("reference") as other:
        assert chain(3).close(other).extract(7, {"1": 5}) is not None


@pytest.mark.parametrize("seed", range(12))
def test_the_cheapest_term_is_of_the_class_and_costs_what_is_said(session: Session, seed: int) -> None:
    """Written into the e-graph again, it is equal to the term; and no term that is there costs less."""
    columns = random_egraph(seed)
    names = [str(number) for number in range(int(columns.operators.max()) + 1)]
    graph = EGraph.from_columns(columns.operators, columns.offsets, columns.children, columns.equalities, names=names)
    prices = {name: 1 + number % 3 for number, name in enumerate(names)}
    least = list[int]()  # of every term as it stands there; children stand before their parents
    for operator, below in rows_of(graph):
        least.append(prices[names[operator]] + sum(least[child] for child in below))
    closed, asked = graph.close(session), range(0, len(graph), 3)
    again = list[tuple[int, int]]()
    for term in asked:
        found = closed.extract(term, prices)
        assert found is not None and found.cost <= min(least[each] for each in closed.members(term))
        numbers, costs = list[int](), list[int]()
        for operator_name, places in found.nodes:
            numbers.append(graph.add(operator_name, *(numbers[place] for place in places)))
            costs.append(prices[operator_name] + sum(costs[place] for place in places))
        assert costs[-1] == found.cost
        again.append((term, numbers[-1]))
    more = graph.close(session)
    assert all(more.same(one, other) for one, other in again)


@pytest.mark.parametrize("cost", [-1, 2**64, 1.0, True])
def test_costs_that_are_none(closed: ClosedEGraph, cost: Any) -> None:
    with pytest.raises(InvalidInput, match="the cost of 'a'"):
        closed.extract(0, {"a": cost})
    with pytest.raises(InvalidConfig, match="shared=1"):
        closed.extract(0, shared=1)  # type: ignore[arg-type]
