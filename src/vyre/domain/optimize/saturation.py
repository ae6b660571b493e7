"""Equality saturation of the expressions of a program, by the laws of the operators.

Every expression is visited once, operands first.  Where a law that makes something cheaper starts at a node, a window
of what is below it, and of the values of locals in it that never change, becomes an e-graph, which is rewritten by all
laws that make nothing longer.  The node is replaced where that found a form with a lower cost.

What is taken over from the values of locals are their operands: locals that were visible where these were declared and
on whose uniformity and repeatability their own rests.  So a new form is uniform where the old one was, and may stand
behind a grid barrier where that might.  Atomics, subgroup operations and calls, and everything around them in an
expression, stay as they are; loads are dropped or evaluated where they stood, at most as often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple

from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.law import Law
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import BINARY, UNARY
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.text_printer import expression_text
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_expressions
from vyre.domain.optimize.egraph.explanation import Replay, Step
from vyre.domain.optimize.egraph.heads import CYCLE, OPERATORS, Head, cost_of
from vyre.domain.optimize.egraph.prefilter import Starts
from vyre.domain.optimize.egraph.rules import Rule, Rules, RuleSet
from vyre.domain.optimize.egraph.saturate import Limits, saturated_window
from vyre.domain.optimize.egraph.windows import Form, Key, Scope, window_of
from vyre.domain.optimize.passes import Counts, Pass
from vyre.domain.optimize.static_types import StaticTypes
from vyre.domain.optimize.walking import Rewriter, walking_pass, with_unique_locals

LIMITS: Final = Limits(window=40, nodes=400, matches=20, rounds=4, search=200, height=0)
"""The bounds of the e-graph of one node."""
SURE_GRAPHS: Final = 200
"""The e-graphs that every program may have, however small it is."""
NODES_PER_GRAPH: Final = 20
"""The nodes of a program for each further e-graph, which keeps the work for a node bounded."""
_CONVERSIONS: Final[frozenset[type[Node]]] = frozenset({ir.Cast, ir.Bitcast, ir.WrapCast})


class Rewrite(NamedTuple):
    """An expression of a program that the pass replaced, and the steps by which one becomes the other."""

    before: ir.Expr
    after: ir.Expr
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        """Returns the two forms, then a line for each step."""
        place = f"  ({self.before.loc})" if self.before.loc is not None else ""
        head = f"{expression_text(self.before)} => {expression_text(self.after)}{place}"
        return "\n  ".join((head, *map(str, self.steps)))


class Rewrites(NamedTuple):
    """Everything that the pass did to a program, and what the steps can be checked with."""

    rewrites: tuple[Rewrite, ...]
    replay: Replay


def rewrites_of(program: Program, laws: tuple[Law, ...] = (), cost: Callable[[Head], int] = cost_of) -> Rewrites:
    """Returns what the pass does to a program, in program order, operands before what they are in.

    ``laws`` and ``cost`` are those of ``with_laws``.
    """
    unique = with_unique_locals(program)
    rewrites: list[Rewrite] = []
    walk = _Saturation(unique, Counter(), rewrites, cost, _rules_with(laws))
    walk.body(unique.body)
    return Rewrites(tuple(rewrites), walk.replay())


def _is_wanted(rule: Rule) -> bool:
    """Returns whether a rule makes nothing longer or much dearer: sums must become products to meet other factors."""
    return rule.gain >= -2 * CYCLE and rule.shortens >= 0


RULES: Final = Rules(LAWS, _is_wanted)


@lru_cache(maxsize=16)
def _more_rules(laws: tuple[Law, ...]) -> Rules:
    return Rules((*LAWS, *laws), _is_wanted)


def _rules_with(laws: tuple[Law, ...]) -> Rules:
    return _more_rules(laws) if laws else RULES


def with_laws(laws: tuple[Law, ...], cost: Callable[[Head], int] = cost_of) -> Pass:
    """Returns the pass with further laws, such as those of a dialect, and with the costs of ``cost``.

    Each law must hold, as the caller has checked.
    """
    if not laws and cost is cost_of:
        return SATURATION
    return walking_pass(SATURATION.name, SATURATION.version, partial(_Saturation, cost=cost, rules=_rules_with(laws)))


@lru_cache(maxsize=64)
def _starts(rules: RuleSet) -> Starts:
    return Starts(rules)


_SPELLINGS: Final[dict[object, str]] = {
    **{op: row.text for op, row in BINARY.items()},
    **{op: row.text for op, row in UNARY.items()},
    ir.Select: "select",
    ir.Fma: "fma",
    ir.Cast: "cast",
    ir.Bitcast: "bitcast",
    ir.WrapCast: "wrap_cast",
    ir.Narrow: "narrow",
    ir.Pack: "pack",
    ir.Unpack: "unpack",
}
_MADE: Final = frozenset({"+", "-", "*", "<<", ">>", "&"})
"""Operators that laws make of others; rules for these are tried in every program."""


def _used(program: Program) -> tuple[frozenset[ScalarType], frozenset[str]]:
    """Returns types that the expressions of a program have, of which none of a literal, load or conversion is missing,
    and the spellings of its operators.
    """
    types = {ScalarType.U32, ScalarType.BOOL}
    types |= {b.element.widened for b in program.buffers if isinstance(b.element, ScalarType)}
    operators: set[object] = set()
    for node in unique_expressions(program):
        cls = type(node)
        if cls is ir.Binary or cls is ir.Unary:
            operators.add(node.op)  # type: ignore[union-attr]
        elif cls is ir.Literal:
            types.add(node.dtype)  # type: ignore[union-attr]
        elif cls not in ir.LEAVES:
            operators.add(cls)
            if cls in _CONVERSIONS:
                types.add(node.dtype)  # type: ignore[union-attr]
    return frozenset(types), _MADE | {_SPELLINGS[op] for op in operators if op in _SPELLINGS}


class _Saturation(Rewriter):
    def __init__(
        self,
        program: Program,
        counts: Counts,
        rewrites: list[Rewrite] | None = None,
        cost: Callable[[Head], int] = cost_of,
        rules: Rules | None = None,
    ) -> None:
        super().__init__(program, counts)
        self._cost = cost
        self._rules = RULES if rules is None else rules
        self._rewrites = rewrites
        self._left = SURE_GRAPHS + node_facts(program).nodes // NODES_PER_GRAPH
        """The e-graphs that may still be made."""
        self._types = StaticTypes(program)
        self._memo: dict[int, ir.Expr] = {}
        self._forms: dict[Key, Form] = {}
        self._impure: dict[int, ir.Expr] = {}
        """Expressions of the new program that stay as they are, by identity."""
        self._assigned = {stmt.name for stmt in ir.walk_statements(program.body) if isinstance(stmt, ir.Assign)}
        self._unchanging = {b.name for b in program.buffers if not b.is_writable}
        self._values: dict[str, ir.Expr] = {}
        self._steady: set[int] = set()
        """Identities of the expressions in ``_values``."""
        self._locals: dict[str, ScalarType] = {}
        elements = {b.name: b.element.widened for b in program.buffers if isinstance(b.element, ScalarType)}
        types, spellings = _used(program)
        self._scope = Scope(self._locals, elements, self._values, self._types.of, types, spellings)
        self._starts = _starts(self._rules.of(types, spellings))

    def expression(self, expr: ir.Expr) -> ir.Expr:
        return rebuilt(expr, self._rule, self._memo)

    def _rule(self, node: ir.Expr) -> ir.Expr:
        """Returns what an expression becomes whose operands are done."""
        kind = type(node)
        if kind in ir.LEAVES:
            return node
        if kind not in OPERATORS or (
            self._impure and any(id(operand) in self._impure for operand in ir.CHILDREN[kind](node))
        ):
            self._impure[id(node)] = node
            return node
        if not self._left or not self._starts.at(node, self._values, self._types.of):
            return node
        self._left -= 1
        self.counts["saturated"] += 1
        cheapest = self._cheapest(node)
        if cheapest is not node:
            self.counts["cheaper"] += 1
        return cheapest

    def _cheapest(self, node: ir.Expr) -> ir.Expr:
        """Returns the cheapest form that is found of an expression; windows that are alike are saturated once."""
        window = window_of(node, self._scope, LIMITS.window)
        form = self._forms.get(window.key)
        if form is None or self._rewrites is not None:
            saturated = saturated_window(window, self._rules, self._scope, LIMITS, self._cost)
            if self._rewrites is not None and saturated.expr is not node:
                self._rewrites.append(Rewrite(node, saturated.expr, saturated.explanation()))
            form = self._forms[window.key] = saturated.form()
        return form.of(window)

    def replay(self) -> Replay:
        """Returns what checks the steps of the rewrites so far."""
        rules = self._rules.of(*_used(self.source)).rules
        return Replay(rules, self._rules.commuting, self._locals, self._scope.elements, self._values)

    # ---- declarations
    def visit_let(self, stmt: ir.Let) -> None:
        let = self.operands(stmt)
        self._declare(stmt.name, self._types.of(let.value))
        if self._is_unchanging(stmt.name, let.value):
            self._values[stmt.name] = let.value
        self.out.append(let)

    def repeated(self, stmt: ir.Loop | ir.GridLoop) -> ir.Body:
        if isinstance(stmt, ir.Loop):
            self._declare(stmt.var, self._types.of(stmt.start))
        else:
            self._declare(stmt.name, ScalarType.U32)
        return self.body(stmt.body)

    def _declare(self, name: str, dtype: ScalarType) -> None:
        self._types.declare(name, dtype)
        self._locals[name] = dtype

    def _is_unchanging(self, name: str, value: ir.Expr) -> bool:
        """Returns whether a local has its value, computed anew, wherever it is visible."""
        if name in self._assigned:
            return False
        seen: set[int] = set()
        stack = [value]
        while stack:
            node = stack.pop()
            if id(node) in seen or id(node) in self._steady:
                continue
            seen.add(id(node))
            if self._is_changing(node):
                return False
            if type(node) not in ir.LEAVES:
                stack += ir.CHILDREN[type(node)](node)
        self._steady |= seen
        return True

    def _is_changing(self, node: ir.Expr) -> bool:
        """Returns whether an expression is not the same at another time, whatever its operands are."""
        if isinstance(node, ir.Var):
            return node.name in self._assigned
        if isinstance(node, ir.Load):
            return node.buffer not in self._unchanging
        return type(node) not in ir.LEAVES and type(node) not in OPERATORS


SATURATION: Final = walking_pass("saturation", 4, _Saturation)
"""Finds cheaper forms of expressions; counts ``saturated`` and ``cheaper`` ones."""
