"""Rewriting of subgroup operations by their laws, the only way in which one of them is dropped or joined to another."""

from __future__ import annotations

from typing import Any, Final

from vyre.domain.dialects.laws.subgroups import OPERATIONS, SUBGROUP_LAWS, SubgroupLaw
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.forms import Effect, with_effects
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.purity import containing

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
