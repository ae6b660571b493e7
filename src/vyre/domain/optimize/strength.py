"""Cheaper operations with the same results: shifts and masks for divisions, and casts and operators that do nothing.

Subgroup operations are left out or joined where one of their laws says so, and nowhere else.

Products of 32 bits by powers of two stay, because no engine multiplies them more slowly than it shifts; divisions by
other constants stay, because the code generators have a rule of their own for them.
"""

from __future__ import annotations

from typing import Any, Final

from vyre.domain.dialects.laws.subgroups import OPERATIONS, SUBGROUP_LAWS, SubgroupLaw
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.bits import value_bits
from vyre.domain.ir.expr import IMPURE, Binary, Cast, Expr, Literal, Narrow, Unary
from vyre.domain.ir.forms import Effect, with_effects
from vyre.domain.ir.operators import EQUALITIES, OPPOSITE, BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt, rebuilt_from
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.purity import containing
from vyre.domain.optimize.value_table import value_table
from vyre.domain.optimize.walking import Rewriter, walking_pass

_UNIFORM: Final = with_effects(Effect.DISPATCH) | {ir.Literal}
_UNIFORM_IDS: Final = frozenset({ir.IdKind.GROUP, ir.IdKind.NUM_GROUPS})


class SubgroupRules:
    """The laws as rules for one program, whose subgroup operations have operands without effects."""

    def __init__(self, program: Program) -> None:
        self._parameters = {buffer.name for buffer in program.buffers if buffer.is_push}
        self._impure = containing(program, ir.IMPURE)

    def simplified(self, old: ir.Expr, node: ir.Expr, dtype: ScalarType) -> ir.Expr | None:
        """Returns a cheaper form of an expression by one law, None if there is none.

        ``old`` is the expression as it stands in the program, ``node`` what has become of it, and ``dtype`` its type.
        """
        if id(old) not in self._impure or not self._may_match(node):
            return None
        for law in SUBGROUP_LAWS:
            if dtype in law.types:
                holes: dict[str, ir.Expr] = {}
                before, after = law.at(dtype)
                if self._matches(law, before, node, holes):
                    return self._made(after, holes, node)
        return None

    def _may_match(self, node: ir.Expr) -> bool:
        if type(node) is ir.Binary:
            return type(node.left) in OPERATIONS and type(node.right) is type(node.left)
        return type(node) in OPERATIONS

    def _matches(self, law: SubgroupLaw, pattern: Any, node: Any, holes: dict[str, ir.Expr]) -> bool:
        """Returns whether an expression has the form of a law; each hole stands in it once.  Recurses over the law."""
        if type(pattern) is ir.Var:
            holes[pattern.name] = node
            return pattern.name not in law.uniform or self._is_uniform(node)
        if type(pattern) is not type(node):
            return False
        if type(pattern) is ir.Literal:
            return bool(pattern.bits == node.bits and pattern.dtype is node.dtype)
        if type(pattern) is ir.Binary and pattern.op is not node.op:
            return False
        operands = zip(ir.CHILDREN[type(pattern)](pattern), ir.CHILDREN[type(node)](node), strict=True)
        return all(self._matches(law, below, operand, holes) for below, operand in operands)

    def _is_uniform(self, node: ir.Expr) -> bool:
        """Returns whether an expression without operands has one value in all lanes of a subgroup."""
        if type(node) is ir.LaunchId:
            return node.kind in _UNIFORM_IDS
        if type(node) is ir.Load:
            return node.buffer in self._parameters and type(node.index) is ir.Literal
        return type(node) in _UNIFORM

    def _made(self, after: ir.Expr, holes: dict[str, ir.Expr], node: ir.Expr) -> ir.Expr:
        def filled(part: Any) -> Any:
            if type(part) is ir.Var:
                return holes[part.name]
            return type(part)(*[getattr(part, name) for name in part.__match_args__], loc=node.loc)

        filled_in: ir.Expr = rebuilt(after, filled)
        return filled_in


_BOOL: Final = ScalarType.BOOL


class _Strength(Rewriter):
    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._table = value_table(program)
        self._impure = containing(program, IMPURE)
        self._subgroups = SubgroupRules(program) if self._impure else None
        self._memo: dict[int, Expr] = {}

    def expression(self, expr: Expr) -> Expr:
        return rebuilt_from(expr, self._reduced, self._memo)

    def _reduced(self, old: Any, new: Any) -> Expr:
        simpler = self._simpler(old, new)
        if self._subgroups is not None:
            joined = self._subgroups.simplified(old, simpler, self._table.of(old).dtype)
            if joined is not None:
                self.counts["subgroup operations"] += 1
                return joined
        return simpler

    def _simpler(self, old: Any, new: Any) -> Expr:
        kind = type(old)
        if kind is Binary:
            return self._binary(old, new)
        if kind is Cast:
            return self._cast(old, new)
        if kind is Unary:
            return self._unary(old, new)
        if kind is Narrow and self._table.of(old) is self._table.of(old.operand):
            self.counts["left out"] += 1
            return new.operand  # type: ignore[no-any-return]
        return new  # type: ignore[no-any-return]

    def _binary(self, old: Binary, new: Binary) -> Expr:
        value = self._table.of(old)
        left, right = self._table.of(old.left), self._table.of(old.right)
        if value.is_integer and id(old) not in self._impure:
            if value.is_literal:
                self.counts["known"] += 1
                return Literal(value.dtype, value_bits(value.dtype, value.low), loc=old.loc)
            if value is left or value is right:
                self.counts["left out"] += 1
                return new.left if value is left else new.right
        if old.op is BinaryOp.MUL:
            return self._product(old, new) if left.is_integer and left.dtype.bits == 64 else new
        if old.op is BinaryOp.DIV or old.op is BinaryOp.MOD:
            if right.is_literal and right.low > 0 and right.low & (right.low - 1) == 0 and left.low >= 0:
                return self._by_power(old, new, right.low) if left.is_integer else new
        elif left.dtype is _BOOL and right.is_literal and old.op in EQUALITIES:
            return new.left if (old.op is BinaryOp.EQ) is (right.low == 1) else self._negated(old, old.left, new.left)
        return new

    def _product(self, old: Binary, new: Binary) -> Expr:
        """Returns a shift for a product of 64 bits by a power of two."""
        for factor, other in ((old.right, new.left), (old.left, new.right)):
            if type(factor) is Literal and factor.bits > 1 and factor.bits & (factor.bits - 1) == 0:
                self.counts["products"] += 1
                count = Literal(factor.dtype, factor.bits.bit_length() - 1, loc=factor.loc)
                return Binary(BinaryOp.SHL, other, count, loc=old.loc)
        return new

    def _by_power(self, old: Binary, new: Binary, divisor: int) -> Expr:
        if type(old.right) is not Literal:
            return new
        self.counts["divisions"] += 1
        dtype = old.right.dtype
        if old.op is BinaryOp.MOD:
            return Binary(BinaryOp.BIT_AND, new.left, Literal(dtype, divisor - 1, loc=old.right.loc), loc=old.loc)
        count = Literal(dtype, divisor.bit_length() - 1, loc=old.right.loc)
        return Binary(BinaryOp.SHR, new.left, count, loc=old.loc)

    def _cast(self, old: Cast, new: Cast) -> Expr:
        """Leaves out casts of integers that a cast around them repeats or undoes."""
        inner, new_inner = old.operand, new.operand
        while type(inner) is Cast and self._is_undone(old.dtype, inner):
            inner = inner.operand
            new_inner = self._memo[id(inner)]
        if self._table.of(inner).dtype is not old.dtype:
            return new if new_inner is new.operand else self._counted(Cast(old.dtype, new_inner, loc=old.loc))
        return self._counted(new_inner)

    def _counted(self, expr: Expr) -> Expr:
        self.counts["casts"] += 1
        return expr

    def _is_undone(self, dtype: ScalarType, inner: Cast) -> bool:
        """Returns whether a cast to an integer type gives the same without the cast that is its operand."""
        source, between = self._table.of(inner.operand), self._table.of(inner)
        if not (dtype.is_integer and between.is_integer and source.is_integer):
            return False
        return between.dtype.bits >= dtype.bits or between.limits == source.limits

    def _unary(self, old: Unary, new: Unary) -> Expr:
        return self._negated(old, old.operand, new.operand, new) if old.op is UnaryOp.LOGICAL_NOT else new

    def _negated(self, old: Expr, operand: Expr, new_operand: Expr, kept: Expr | None = None) -> Expr:
        """Returns the negation of a bool, whose old form is ``operand``; ``kept`` if nothing is gained."""
        if type(new_operand) is Unary and new_operand.op is UnaryOp.LOGICAL_NOT:
            self.counts["negations"] += 1
            return new_operand.operand
        if type(new_operand) is Binary and self._has_opposite(operand, new_operand):
            self.counts["negations"] += 1
            return Binary(OPPOSITE[new_operand.op], new_operand.left, new_operand.right, loc=old.loc)
        if type(new_operand) is Cast and type(operand) is Cast and new_operand.dtype is _BOOL:
            dtype = self._table.of(operand.operand).dtype
            if dtype is not _BOOL and new_operand.operand is self._memo.get(id(operand.operand)):
                self.counts["negations"] += 1
                return Binary(BinaryOp.EQ, new_operand.operand, Literal(dtype, 0, loc=old.loc), loc=old.loc)
        return kept or Unary(UnaryOp.LOGICAL_NOT, new_operand, loc=old.loc)

    def _has_opposite(self, old: Expr, new: Binary) -> bool:
        if type(old) is not Binary or new.op is not old.op or new.op not in OPPOSITE:
            return False
        return new.op in EQUALITIES or not self._table.of(old.left).dtype.is_float


STRENGTH: Final = walking_pass("strength", 2, _Strength)
"""Replaces operations by cheaper ones."""
