"""What the policies say about a program, gathered once before it is written."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.domain.ir.expr import Atomic, Load, Var
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import If, Let, Loop, Store, operands, walk_statements
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.validation.uniformity import Uniformity, uniformity
from vyre.domain.validation.validator import order_sensitive


class Hazards:
    rotates = True
    min_max = True
    loops = True


class Facts:
    """Answers are conservative where a policy is switched off."""

    def __init__(self, program: Program, options: EmitOptions) -> None:
        self._uniformity = uniformity(program)
        self._uniform_branches = options.switches.uniform_branches
        self.hazards: Final = Hazards()
        self.zeroed: Final = frozenset(b.name for b in program.buffers if b.is_workgroup)
        self.relaxed_atomics: Final = options.switches.relaxed_atomics and not order_sensitive(program)
        self._program: Final = program
        self._assumed: Final = options.assume
        self.assumed: Final[set[Assumption]] = set()
        """Those of the permitted assumptions that the text relies on."""

    def proven(self, access: Load | Store | Atomic) -> bool:
        """Is the index certainly in range?"""
        return False

    def branches_together(self, stmt: If | Loop) -> bool:
        """Do all lanes of a subgroup take the branch together?"""
        return self._uniform_branches and self._uniformity.condition(stmt) <= Uniformity.SUBGROUP

    def counts_together(self, stmt: Loop) -> bool:
        """Do all lanes of a subgroup run the same iterations?"""
        return self._uniformity.iterations(stmt) <= Uniformity.SUBGROUP

    def may_assume(self, assumption: Assumption) -> bool:
        """May the text rely on it?  If so, it is noted that it does."""
        if assumption in self._assumed:
            self.assumed.add(assumption)
            return True
        return False

    @cached_property
    def _read(self) -> frozenset[str]:
        statements = walk_statements(self._program.body)
        return frozenset(n.name for s in statements for n in unique_nodes(operands(s)) if isinstance(n, Var))

    def is_read(self, stmt: Let) -> bool:
        """Does anything read a local of this name?"""
        return stmt.name in self._read
