"""The same rules and expressions in egglog, another e-graph library, which is installed where the peers are.

Every operator and its operand types are one constructor, every literal type one.  The swaps of operands that this
package matches without adding terms are rules there.  Constants of 32 bits fold by egglog's own arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from support.egraphs.terms import types_for
from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.ir.expr import Expr, Literal, Var, children
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.heads import Types
from vyre.domain.optimize.egraph.rules import Rule, Rules, typed_head

U32, I32, BOOL = ScalarType.U32, ScalarType.I32, ScalarType.BOOL
_WORD: Final = 0xFFFF_FFFF
_FOLDED: Final = {
    "ADD": f"(& (+ a b) {_WORD})",
    "SUB": f"(& (- a b) {_WORD})",
    "BIT_AND": "(& a b)",
    "BIT_OR": "(| a b)",
    "BIT_XOR": "(^ a b)",
}
_TOKEN: Final = re.compile(r"\((\w+)")


SHARED: Final = Rules([law for law in LAWS if law.where is None], lambda rule: rule.shortens >= 0)
"""The rules of both: all laws without conditions, in the directions that make nothing longer."""


class Peer:
    """Rules as an egglog program; ``smallest`` is what egglog extracts for an expression."""

    def __init__(self, rules: Rules, dtype: ScalarType) -> None:
        self._rules = rules
        self._dtype = dtype
        self._constructors: dict[str, int] = {}
        self._commuting: dict[str, None] = {}

    def program(self, expr: Expr, iterations: int) -> str:
        """The egglog program that saturates an expression and extracts its smallest form."""
        rewrites = [self._rewrite(rule) for rule in self._rules.of((self._dtype, BOOL, U32)).rules]
        start = self._text(expr, types_for(self._dtype), holes=False)
        swaps = [f"(rewrite ({name} a b) ({name} b a))" for name in self._commuting]
        return "\n".join(
            (
                "(sort E)",
                "(constructor Local (String) E :cost 0)",
                *(f"(constructor Lit_{dtype.text} (i64) E :cost 0)" for dtype in (U32, I32, BOOL)),
                *(f"(constructor {name} ({'E ' * arity}) E)" for name, arity in self._constructors.items()),
                *rewrites,
                *swaps,
                *self._folding(),
                f"(let $start {start})",
                f"(run {iterations})",
                "(extract $start)",
            )
        )

    def smallest(self, expr: Expr, iterations: int) -> tuple[int, str]:
        """The number of nodes, written out, of the form that egglog extracts, and that form."""
        from egglog import bindings

        graph: Any = bindings.EGraph()
        outputs = graph.run_program(*graph.parse_program(self.program(expr, iterations)))
        text = str(outputs[-1]).strip()
        return len(_TOKEN.findall(text)), text

    def _folding(self) -> Iterator[str]:
        for dtype in (U32, I32):
            for op, made in _FOLDED.items():
                name = f"Binary_{op}_{dtype.text}_{dtype.text}"
                if name in self._constructors:
                    lit = f"Lit_{dtype.text}"
                    yield f"(rule ((= e ({name} ({lit} a) ({lit} b)))) ((union e ({lit} {made}))))"

    def _rewrite(self, rule: Rule) -> str:
        before, after = (self._text(side, rule.holes, holes=True) for side in (rule.before, rule.after))
        return f"(rewrite {before} {after})"

    def _text(self, expr: Expr, types: Types, *, holes: bool) -> str:
        if isinstance(expr, Var):
            return f"{expr.name}_" if holes else f'(Local "{expr.name}")'
        if isinstance(expr, Literal):
            return f"(Lit_{expr.dtype.text} {expr.bits})"
        head = typed_head(expr, types)
        below = children(expr)
        kinds = [typed_head(operand, types).dtype.text for operand in below]
        payload = getattr(head.payload, "name", "")
        name = "_".join((head.node.__name__, payload, *kinds))
        self._constructors[name] = len(below)
        if self._rules.commuting(head) is not None:
            self._commuting[name] = None
        return f"({name} {' '.join(self._text(operand, types, holes=holes) for operand in below)})"
