"""``Rule``: one direction of a law for one type, compiled; and ``Rules``, which finds those that start at a head.

A pattern is compiled once into steps of a small machine with registers, each of which holds a term.  A step walks over
the terms of a class that have a head and puts their operands into new registers, or compares.  Heads that commute are
matched in both orders, so that no term with swapped operands is ever added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Final, NamedTuple, Protocol, TypeAlias

from vyre.domain.cached import cached_property
from vyre.domain.ir.expr import Binary, Expr, Literal, Var, children
from vyre.domain.ir.rebuilding import with_children
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.graph import EGraph, Reason, Why
from vyre.domain.optimize.egraph.heads import LEAF, Head, Types, cost_of, interned, leaf_head, operator_head

Holes: TypeAlias = Mapping[str, ScalarType]


class Equation(Protocol):
    """A law as this module uses it: both sides for a type, in which locals are holes.

    Constant holes match literals only; ``holds_for`` says whether the law holds for their bits.
    """

    @property
    def name(self) -> str:
        """Returns the name."""

    @property
    def before(self) -> str:
        """Returns the text of the side that is replaced."""

    @property
    def after(self) -> str:
        """Returns the text of the other side."""

    @property
    def types(self) -> frozenset[ScalarType]:
        """Returns the types on which the law holds."""

    @property
    def both_ways(self) -> bool:
        """Returns whether rewriting ``after`` to ``before`` may be of use."""

    @property
    def constant_holes(self) -> frozenset[str]:
        """Returns the holes that match literals only."""

    def at(self, dtype: ScalarType) -> tuple[Expr, Expr]:
        """Returns both sides."""

    def hole_types(self, dtype: ScalarType) -> dict[str, ScalarType]:
        """Returns the types of the holes."""

    def holds_for(self, dtype: ScalarType, constants: Mapping[str, int]) -> bool:
        """Returns whether bit patterns of the constant holes satisfy the condition."""


class _Walk(NamedTuple):
    """For each term with ``head`` in the class of ``register``: put its operands into the next registers."""

    register: int
    head: Head
    arity: int


class _Same(NamedTuple):
    """Goes on if two registers hold terms of one class."""

    register: int
    other: int


class _Hole(NamedTuple):
    """Goes on if a register holds a term of this type, equal to a literal if ``is_constant``."""

    register: int
    dtype: ScalarType
    is_constant: bool


class _Constant(NamedTuple):
    """Goes on if the class of a register is equal to this literal."""

    register: int
    head: Head


_Step: TypeAlias = _Walk | _Same | _Hole | _Constant


class Program(NamedTuple):
    """A compiled pattern: its root, the steps after the root's operands are in registers, and the register of each
    hole.
    """

    pattern: Expr
    root: Head
    steps: tuple[_Step, ...]
    holes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Rule:
    """``before`` may be replaced by ``after``, both expressions in which locals are holes of the types in ``holes``.

    ``constants`` are the holes that match literals only, ``holds`` the condition on their bits.  ``forward`` is False
    if ``law`` is read from its right side to its left.  ``swaps`` are the heads that commute.
    """

    law: str
    before: Expr
    after: Expr
    holes: Holes
    constants: frozenset[str] = frozenset()
    holds: Callable[[Mapping[str, int]], bool] | None = None
    forward: bool = True
    swaps: frozenset[Head] = frozenset()

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """Returns the pattern, compiled once for every order of operands in which it can stand."""
        return tuple(_compiled(self))

    @cached_property
    def gain(self) -> int:
        """Returns by how much the instance costs less after than before, where the holes are leaves."""
        return pattern_cost(self.before, self) - pattern_cost(self.after, self)

    @cached_property
    def shortens(self) -> int:
        """Returns by how many nodes the instance is smaller after than before, where the holes are leaves."""
        return pattern_size(self.before, self) - pattern_size(self.after, self)

    @cached_property
    def height(self) -> int:
        """Returns the height of the pattern."""
        return height(self.before)

    @cached_property
    def places(self) -> tuple[tuple[Program, tuple[int, Head] | None], ...]:
        """Returns the compiled patterns, each with the place and head of the first operand that has a head."""
        walks = [next((step for step in program.steps if isinstance(step, _Walk)), None) for program in self.programs]
        return tuple(
            (program, None if walk is None else (walk.register, walk.head))
            for program, walk in zip(self.programs, walks, strict=True)
        )

    @cached_property
    def reason(self) -> Reason:
        """Returns the reason of a union that this rule makes."""
        return Reason(Why.LAW, self.law)

    def matches(self, graph: EGraph, term: int, program: Program) -> Iterator[dict[str, int]]:
        """Yields the terms for which the holes stand, for every way in which a term is an instance of ``before``."""
        for registers in _run(graph, program.steps, 0, list(graph.operands[term])):
            holes = {name: registers[register] for name, register in program.holes}
            if self.holds is None or self.holds(self._bits(graph, holes)):
                yield self._with_literals(graph, holes)

    def _bits(self, graph: EGraph, holes: Mapping[str, int]) -> dict[str, int]:
        return {name: graph.heads[_literal(graph, holes[name])].payload for name in holes if name in self.constants}

    def _with_literals(self, graph: EGraph, holes: dict[str, int]) -> dict[str, int]:
        for name in self.constants & holes.keys():
            holes[name] = _literal(graph, holes[name])
        return holes

    def apply(self, graph: EGraph, holes: Mapping[str, int]) -> bool:
        """Makes the instances of both sides equal; returns whether they were not known to be."""
        before = instance(graph, self.before, self.holes, holes)
        after = instance(graph, self.after, self.holes, holes)
        if self.forward:
            return graph.union(before, after, self.reason)
        return graph.union(after, before, self.reason)


def _literal(graph: EGraph, term: int) -> int:
    constant = graph.constant(term)
    assert constant is not None
    return constant


def instance(graph: EGraph, pattern: Expr, holes: Holes, terms: Mapping[str, int]) -> int:
    """Returns the term of a pattern with terms for its holes."""
    if type(pattern) is Var:
        return terms[pattern.name]
    if type(pattern) is Literal:
        return graph.term(leaf_head(pattern, {}))
    operands = tuple([instance(graph, below, holes, terms) for below in children(pattern)])
    types = tuple([graph.dtype(term) for term in operands])
    return graph.term(interned(operator_head(pattern, types, {})), operands)


def _run(graph: EGraph, steps: Sequence[_Step], position: int, registers: list[int]) -> Iterator[list[int]]:
    while position < len(steps):
        step = steps[position]
        kind = type(step)
        position += 1
        if kind is _Walk:
            for term in graph.with_head(registers[step.register], step.head):  # type: ignore[union-attr]
                yield from _run(graph, steps, position, registers + list(graph.operands[term]))
            return
        if not _CHECKS[kind](graph, step, registers):  # type: ignore[operator]
            return
    yield registers


def _is_same(graph: EGraph, step: _Same, registers: list[int]) -> bool:
    return graph.find(registers[step.register]) == graph.find(registers[step.other])


def _is_hole(graph: EGraph, step: _Hole, registers: list[int]) -> bool:
    term = registers[step.register]
    return graph.heads[term].dtype is step.dtype and not (step.is_constant and graph.constant(term) is None)


def _is_constant(graph: EGraph, step: _Constant, registers: list[int]) -> bool:
    constant = graph.constant(registers[step.register])
    return constant is not None and graph.heads[constant] == step.head


_CHECKS: Final = {_Same: _is_same, _Hole: _is_hole, _Constant: _is_constant}


# ------------------------------------------------------------------------------ compiling


def typed_head(expr: Expr, locals_: Types, elements: Types | None = None) -> Head:
    """Returns the head of the root of an expression or a pattern; recurses over it."""
    below = children(expr)
    if not below:
        return leaf_head(expr, locals_)
    types = tuple([typed_head(operand, locals_, elements).dtype for operand in below])
    return interned(operator_head(expr, types, elements or {}))


def _compiled(rule: Rule) -> Iterator[Program]:
    """Yields one program for each order of operands in which ``before`` can stand, but none twice."""
    seen = set()
    for pattern in _orders(rule.before, rule):
        names: dict[str, str] = {}
        shape = (_shape(pattern, names), _shape(rule.after, names))
        if shape not in seen:
            seen.add(shape)
            yield _program(pattern, rule)


def _orders(pattern: Expr, rule: Rule) -> Iterator[Expr]:
    below = children(pattern)
    if not below:
        yield pattern
        return
    head = typed_head(pattern, rule.holes)
    for operands in product(*[list(_orders(operand, rule)) for operand in below]):
        yield with_children(pattern, operands)
        if head in rule.swaps and type(pattern) is Binary:
            yield Binary(pattern.op, operands[1], operands[0])


def _shape(pattern: Expr, names: dict[str, str]) -> object:
    """Returns the form of a pattern, in which holes are numbered by their first appearance."""
    if type(pattern) is Var:
        return names.setdefault(pattern.name, f"#{len(names)}")
    if type(pattern) is Literal:
        return pattern.dtype.text, pattern.bits
    below = tuple([_shape(operand, names) for operand in children(pattern)])
    kinds = set(map(id, children(pattern)))
    plain = tuple([str(v) for n in pattern.__match_args__ if id(v := getattr(pattern, n)) not in kinds])
    return type(pattern).__name__, plain, below


def _program(pattern: Expr, rule: Rule) -> Program:
    """Compiles breadth first, so that cheap comparisons come before walks over classes."""
    root = typed_head(pattern, rule.holes)
    checks: list[_Step] = []
    walks: list[tuple[int, Expr]] = []
    steps: list[_Step] = []
    holes: dict[str, int] = {}
    registers = 0

    def place(operands: Iterable[Expr]) -> None:
        nonlocal registers
        for operand in operands:
            if type(operand) is Var:
                if operand.name in holes:
                    checks.append(_Same(registers, holes[operand.name]))
                else:
                    holes[operand.name] = registers
                    is_constant = operand.name in rule.constants
                    checks.append(_Hole(registers, rule.holes[operand.name], is_constant))
            elif type(operand) is Literal:
                checks.append(_Constant(registers, leaf_head(operand, {})))
            else:
                walks.append((registers, operand))
            registers += 1

    place(children(pattern))
    while checks or walks:
        steps += checks
        checks.clear()
        if walks:
            register, below = walks.pop(0)
            operands = children(below)
            steps.append(_Walk(register, typed_head(below, rule.holes), len(operands)))
            place(operands)
    return Program(pattern, root, tuple(steps), tuple(holes.items()))


# ------------------------------------------------------------------------------ from laws


_MOST_SETS: Final = 64
"""Sets of rules that are kept; programs with other operators have other sets."""
_MOST_CONSTANTS: Final = 256
"""Constants for which it is remembered whether a law holds."""
_TYPE_ARGUMENT: Final = re.compile(r"(\w)<\w+>\(")
_OPERATOR: Final = re.compile(r"[a-z_]\w*(?=\()|\b(?:and|or)\b|<<|>>|<=|>=|==|!=|-(?= )|[+*/%&|^<>]")


@cache
def operators_of(text: str) -> frozenset[str]:
    """Returns the spellings of operators that an expression has for sure, without parsing it."""
    return frozenset(_OPERATOR.findall(_TYPE_ARGUMENT.sub(r"\1(", text)))


def _may_commute(law: Equation) -> bool:
    """Returns whether a law may be the swap of two operands, without parsing it."""
    return len(law.before) == len(law.after) and sorted(law.before) == sorted(law.after)


class Rules:
    """The rules of a set of laws, compiled per type when a type is first asked for.

    Laws that swap the operands of one operator and do nothing else make the head of that operator commute.
    ``wanted`` says which rules are kept; by default all are.
    """

    def __init__(self, laws: Iterable[Equation], wanted: Callable[[Rule], bool] | None = None) -> None:
        self._laws: tuple[Equation, ...] = tuple(laws)
        self._wanted = wanted
        self._known: dict[tuple[str, ScalarType, bool], tuple[Rule, ...]] = {}
        self._swaps: dict[ScalarType, dict[Head, str]] = {}
        self._sets: dict[tuple[frozenset[ScalarType], frozenset[str] | None], RuleSet] = {}

    def of(self, types: Iterable[ScalarType], spellings: frozenset[str] | None = None) -> RuleSet:
        """Returns the rules of some types, by the head of their root.

        With ``spellings``, those of operators, only rules whose pattern has no other operators: only these are read
        and compiled.
        """
        key = frozenset(types), spellings
        rule_set = self._sets.get(key)
        if rule_set is None:
            ordered = sorted(key[0], key=lambda dtype: dtype.tag)
            rules = [rule for dtype in ordered for law in self._laws for rule in self._read(law, dtype, spellings)]
            if len(self._sets) >= _MOST_SETS:
                self._sets.clear()
            rule_set = self._sets[key] = RuleSet(rules)
        return rule_set

    def commuting(self, head: Head) -> str | None:
        """Returns the name of the law by which the operands of a head may be swapped, None if there is none."""
        return None if head.operand is None else self._swaps_of(head.operand).get(head)

    def _swaps_of(self, dtype: ScalarType) -> Mapping[Head, str]:
        swaps = self._swaps.get(dtype)
        if swaps is None:
            swaps = self._swaps[dtype] = {}
            for law in self._laws:
                if dtype in law.types and _may_commute(law) and _is_commutation(*law.at(dtype)):
                    swaps[typed_head(law.at(dtype)[0], law.hole_types(dtype))] = law.name
        return swaps

    def _read(self, law: Equation, dtype: ScalarType, spellings: frozenset[str] | None) -> Iterator[Rule]:
        if dtype not in law.types:
            return
        for forward in (True, False) if law.both_ways else (True,):
            if spellings is None or operators_of(law.before if forward else law.after) <= spellings:
                yield from self._rules_of(law, dtype, forward)

    def _rules_of(self, law: Equation, dtype: ScalarType, forward: bool) -> tuple[Rule, ...]:
        """Returns the rule of one direction of a law, if there is one that is wanted."""
        key = law.name, dtype, forward
        rules_of = self._known.get(key)
        if rules_of is None:
            rules = [rule for rule in self._directions(law, dtype) if rule.forward is forward]
            rules_of = tuple([rule for rule in rules if self._wanted is None or self._wanted(rule)])
            self._known[key] = rules_of
        return rules_of

    def _directions(self, law: Equation, dtype: ScalarType) -> Iterator[Rule]:
        before, after = law.at(dtype)
        if _is_commutation(before, after):
            return
        holes = law.hole_types(dtype)
        swaps = frozenset(head for kind in {dtype, *holes.values()} for head in self._swaps_of(kind))
        constants = law.constant_holes

        @lru_cache(maxsize=_MOST_CONSTANTS)
        def holds_for(bits: tuple[tuple[str, int], ...]) -> bool:
            return law.holds_for(dtype, dict(bits))

        def holds(bits: Mapping[str, int]) -> bool:
            return holds_for(tuple(sorted(bits.items())))

        condition = holds if constants else None
        if type(before) not in (Var, Literal):
            yield Rule(law.name, before, after, holes, constants, condition, True, swaps)
        if law.both_ways and type(after) not in (Var, Literal) and names(before) <= names(after):
            yield Rule(law.name, after, before, holes, constants, condition, False, swaps)


class Start(NamedTuple):
    """A pattern of a rule, and the number of the rule in its set."""

    number: int
    rule: Rule
    program: Program


class RuleSet:
    """Rules by the head of the root of their patterns; ``depth`` is the height of the highest pattern.

    Patterns of which an operand has a head are found by the first such operand and its head, so that a term meets those
    alone of which the operands have the right heads.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules: tuple[Rule, ...] = tuple(rules)
        self._flat: dict[Head, list[Start]] = {}
        self._deep: dict[Head, dict[tuple[int, Head], list[Start]]] = {}
        for number, rule in enumerate(self.rules):
            for program, place in rule.places:
                start = Start(number, rule, program)
                if place is None:
                    self._flat.setdefault(program.root, []).append(start)
                else:
                    self._deep.setdefault(program.root, {}).setdefault(place, []).append(start)
        self.depth: int = max((rule.height for rule in self.rules), default=0)

    def starts(self, graph: EGraph, term: int, known: dict[int, tuple[Head, ...]]) -> list[Start]:
        """Returns the patterns that a term may be an instance of, in the order of the rules.

        ``known`` holds the heads of the terms of classes, while the graph does not change.
        """
        root = graph.heads[term]
        starts = list(self._flat.get(root, ()))
        deep = self._deep.get(root)
        if deep:
            for register, operand in enumerate(graph.operands[term]):
                eclass = graph.find(operand)
                heads = known.get(eclass)
                if heads is None:
                    heads = known[eclass] = tuple(
                        dict.fromkeys(graph.heads[member] for member in graph.members(eclass))
                    )
                for head in heads:
                    starts += deep.get((register, head), ())
            starts.sort(key=_number)
        return starts


def _number(start: Start) -> int:
    return start.number


def names(pattern: Expr) -> frozenset[str]:
    """Returns the names of the holes of a pattern."""
    if type(pattern) is Var:
        return frozenset({pattern.name})
    return frozenset().union(*[names(below) for below in children(pattern)])


def height(pattern: Expr) -> int:
    """Returns the number of operators on the longest way to a leaf."""
    return max((1 + height(below) for below in children(pattern)), default=0)


def _is_folded(pattern: Expr, rule: Rule) -> bool:
    """Returns whether an instance of a pattern is a literal once constants are folded."""
    if type(pattern) is Var:
        return pattern.name in rule.constants
    below = children(pattern)
    return type(pattern) is Literal or (bool(below) and all(_is_folded(operand, rule) for operand in below))


def pattern_cost(pattern: Expr, rule: Rule) -> int:
    """Returns the cost of an instance written out in which constants are folded and holes are leaves."""
    if _is_folded(pattern, rule):
        return LEAF
    below = sum(pattern_cost(operand, rule) for operand in children(pattern))
    return below + cost_of(typed_head(pattern, rule.holes))


def pattern_size(pattern: Expr, rule: Rule) -> int:
    """Returns the nodes of an instance written out in which constants are folded and holes are leaves."""
    return 1 if _is_folded(pattern, rule) else 1 + sum(pattern_size(operand, rule) for operand in children(pattern))


def _is_commutation(before: Expr, after: Expr) -> bool:
    """Returns whether a law swaps two holes that are the operands of one operator, and no more."""
    match before, after:
        case Binary(op, Var(a), Var(b)), Binary(other, Var(c), Var(d)):
            return op is other and a != b and (a, b) == (d, c)
    return False
