"""Other closures of e-graphs: egglog, which reads its rows from files, and the e-graph of the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.harness import NotMeasured
from vyre.domain.ir.node import Node
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.graph import EGraph as Terms
from vyre.domain.optimize.egraph.graph import Reason, Why
from vyre.domain.optimize.egraph.heads import Head, interned
from vyre.egraph import EGraph

_STATED: Final = Reason(Why.LAW, "stated")


def rows_of(graph: EGraph) -> list[tuple[int, tuple[int, ...]]]:
    """Returns operator and children of every term."""
    children = graph.children.tolist()
    spans = pairwise(graph.offsets.tolist())
    return [(op, tuple(children[a:b])) for op, (a, b) in zip(graph.operators.tolist(), spans, strict=True)]


def optimizer_classes(graph: EGraph) -> npt.NDArray[np.uint32]:
    """Returns the classes by the optimizer's e-graph; for terms whose children stand before them."""
    terms, numbers = Terms(), list[int]()
    for op, children in rows_of(graph):
        head = interned(Head(Node, (op, len(children)), ScalarType.U32))
        numbers.append(terms.term(head, tuple(numbers[child] for child in children)))
    for one, other in graph.equalities.tolist():
        terms.union(numbers[one], numbers[other], _STATED)
    terms.rebuild()
    first: dict[int, int] = {}
    return np.array([first.setdefault(terms.find(number), at) for at, number in enumerate(numbers)], np.uint32)


class Sizes(NamedTuple):
    """How many classes a closure has, and how many terms that differ."""

    classes: int
    rows: int


class Egglog:
    """A closure by egglog: every term is a row of a file, with the numbers of its children.

    Every arity is a constructor, and a rule unites the term of a number with the constructor of the children's terms.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from egglog import bindings
        except ImportError:
            raise NotMeasured("egglog is not installed") from None
        self._made: Any = bindings.EGraph()
        self._folder = folder
        self._arities: list[int] = []

    def close(self, graph: EGraph) -> None:
        """Writes the files, loads them and closes the e-graph."""
        self._run("\n".join(("(ruleset load)", "(sort E)", "(constructor Term (i64) E)", *self._loading(graph))))
        self._run("(run load 1)")

    def sizes(self) -> Sizes:
        """Returns what the closure has."""
        self._run("(relation Class (E)) (rule ((= e (Term r))) ((Class e)) :ruleset load) (run load 1)")
        tables = ("Class", *(f"Node{arity}" for arity in self._arities))
        classes, *rows = (int(str(self._run(f"(print-size {table})")[-1])) for table in tables)
        return Sizes(classes, sum(rows))

    def _run(self, program: str) -> list[Any]:
        found: list[Any] = self._made.run_program(*self._made.parse_program(program))
        return found

    def _loading(self, graph: EGraph) -> Iterator[str]:
        operators, children, equalities = graph.operators, graph.children, graph.equalities
        offsets = graph.offsets.astype(np.int64)
        arities = np.diff(offsets)
        self._arities = np.unique(arities).tolist()
        for arity in self._arities:
            rows = np.flatnonzero(arities == arity)
            file = self._write(
                f"rows{arity}", rows, operators[rows], *(children[offsets[rows] + k] for k in range(arity))
            )
            names = [f"c{k}" for k in range(arity)]
            node = " ".join((f"(Node{arity} op", *(f"(Term {name})" for name in names))) + ")"
            yield f"(constructor Node{arity} (i64 {'E ' * arity}) E)"
            yield f"(relation Row{arity} (i64 i64 {'i64 ' * arity}))"
            yield f'(input Row{arity} "{file}")'
            yield f"(rule ((Row{arity} row op {' '.join(names)})) ((union (Term row) {node})) :ruleset load)"
        yield "(relation Equal (i64 i64))"
        yield f'(input Equal "{self._write("equal", equalities[:, 0], equalities[:, 1])}")'
        yield "(rule ((Equal one other)) ((union (Term one) (Term other))) :ruleset load)"

    def _write(self, name: str, *columns: npt.NDArray[Any]) -> Path:
        path = self._folder / f"{name}.tsv"
        lines = zip(*(map(str, column.tolist()) for column in columns), strict=True)
        path.write_text("\n".join(map("\t".join, lines)), "utf-8")
        return path
