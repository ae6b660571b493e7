"""Results of the analyses of a program, gathered before it is written, and the assumptions that its text makes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from vyre.adapters.cuda.decisions.ptxas_hazards import AssemblerInputs, fences_needed
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.memory_layout import PrivateLayout
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.domain.analysis.bounds_checks import BoundsFacts, bounds_facts
from vyre.domain.analysis.uniformity import Uniformity, uniformity
from vyre.domain.analysis.wide_access import WideAccess, WideFacts, wide_facts
from vyre.domain.analysis.zeroing import needs_private_zeroing, needs_zeroing
from vyre.domain.cached import cached_property
from vyre.domain.ir.expr import EXCHANGING, Atomic, Load, Var
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Barrier, If, Let, Loop, Store, Switch, operands, walk_statements
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.validation.known import order_sensitive
from vyre.policies.journal import DecisionSink, decide

NOTHING: Final[frozenset[Assumption]] = frozenset()
EXACT_GRID: Final = frozenset({Assumption.EXACT_GRID})
OF_GROUPS: Final = frozenset({Assumption.ALIGNED16, Assumption.NOALIAS})
"""Assumptions that wide accesses to memory outside of the workgroup may rely on."""


class Assumptions:
    """Launch-time facts that a text may rely on and, once it is written, those that it does rely on."""

    def __init__(self, permitted: frozenset[Assumption]) -> None:
        self._permitted: Final = permitted
        self._assumed: Final[set[Assumption]] = set()

    def make(self, *wanted: Assumption) -> bool:
        """Records that the text relies on all of ``wanted``, if it may; returns whether it may."""
        permitted = self._permitted.issuperset(wanted)
        if permitted:
            self._assumed.update(wanted)
        return permitted

    @property
    def made(self) -> tuple[Assumption, ...]:
        """Returns the assumptions that the text relies on, in the order of their declaration."""
        return tuple(assumption for assumption in Assumption if assumption in self._assumed)


class Facts:
    """Facts about one program under one set of options; querying them does not change them.

    Results are conservative where a policy is switched off.  ``inlined``: uniform buffers that have no address.
    """

    def __init__(
        self, program: Program, options: EmitOptions, inlined: Collection[str], sink: DecisionSink | None
    ) -> None:
        self._program: Final = program
        self._switches: Final = options.switches
        self._permitted: Final = options.assume
        self._inlined: Final = inlined
        self._uniformity: Final = uniformity(program)
        self._stays: Final = options.mailbox
        self.fences: Final = decide(sink, fences_needed, AssemblerInputs(options.target, options.assembler))
        self.relaxed_atomics: Final = options.switches.relaxed_atomics and not order_sensitive(program)

    # ---- memory
    def proven(self, access: Load | Store | Atomic) -> frozenset[Assumption] | None:
        """Returns permitted assumptions under which the index is certainly in range; None if it may be out of range."""
        if not self._switches.bounds_checks:
            return None
        if self._bounds.proven(access):
            return NOTHING
        exact = self._exact_bounds
        return EXACT_GRID if exact is not None and exact.proven(access) else None

    def wide(self, access: Load | Store) -> WideAccess | None:
        """Returns the group of accesses that ``access`` is combined with, or None."""
        if self._wide is None or access.buffer in self._inlined or access.buffer in self.in_registers:
            return None
        return self._wide.of(access)

    def rests_on(self, access: Load | Store) -> frozenset[Assumption]:
        """Returns permitted assumptions under which ``access`` is part of a group."""
        return self._permitted & OF_GROUPS if self._program.buffer(access.buffer).is_bound else NOTHING

    @cached_property
    def zeroed(self) -> frozenset[str]:
        """Returns the workgroup buffers whose initial zeros the program could observe."""
        if self._switches.shared_zeroing:
            return needs_zeroing(self._program, self._bounds)
        return frozenset(buffer.name for buffer in self._program.buffers if buffer.is_workgroup)

    @cached_property
    def private(self) -> PrivateLayout:
        """Returns the places of the private buffers."""
        return PrivateLayout(self._program)

    @property
    def in_registers(self) -> Collection[str]:
        """Returns the private buffers whose elements are registers."""
        return self.private.in_registers

    @cached_property
    def private_zeroed(self) -> tuple[str, ...]:
        """Returns the private buffers in local memory whose initial zeros the program could observe."""
        read = self.private.read
        if self._switches.shared_zeroing and self.private.arrays:
            read &= needs_private_zeroing(self._program, self._bounds)
        return tuple(name for name in self.private.arrays if name in read)

    @cached_property
    def _bounds(self) -> BoundsFacts:
        return bounds_facts(self._program, same_length=True)

    @cached_property
    def _exact_bounds(self) -> BoundsFacts | None:
        """Returns the bounds that hold only for a grid of exactly as many lanes as there are elements."""
        if Assumption.EXACT_GRID not in self._permitted:
            return None
        return bounds_facts(self._program, exact_grid=True, same_length=True)

    @cached_property
    def _wide(self) -> WideFacts | None:
        if not self._switches.wide_access:
            return None
        aligned, apart = (a in self._permitted for a in (Assumption.ALIGNED16, Assumption.NOALIAS))
        return wide_facts(self._program, self._bounds, aligned16=aligned, noalias=apart)

    # ---- flow
    def branches_together(self, stmt: If | Loop | Switch) -> bool:
        """Returns whether all lanes of a subgroup take the branch together.

        In a kernel that stays, a lane may be told to end a loop that others go on with.
        """
        return (
            self._switches.uniform_branches
            and not self._stays
            and self._uniformity.condition(stmt) <= Uniformity.SUBGROUP
        )

    def counts_together(self, stmt: Loop) -> bool:
        """Returns whether all lanes of a subgroup run the same iterations."""
        return self._uniformity.iterations(stmt) <= Uniformity.SUBGROUP

    def keeps_together(self, stmt: Loop) -> Uniformity:
        """Returns the lanes that must end a loop together if it ends early, for what follows to be as it should."""
        return self._uniformity.rounds(stmt) if self._gathers else Uniformity.LANE

    @cached_property
    def _gathers(self) -> bool:
        """Whether the program has a barrier or an operation of a subgroup."""
        return any(
            isinstance(stmt, Barrier) or any(type(n) in EXCHANGING for n in unique_nodes(operands(stmt)))
            for stmt in walk_statements(self._program.body)
        )

    @cached_property
    def _read(self) -> frozenset[str]:
        statements = walk_statements(self._program.body)
        return frozenset(n.name for s in statements for n in unique_nodes(operands(s)) if isinstance(n, Var))

    def is_read(self, stmt: Let) -> bool:
        """Returns whether some expression reads a local of this name."""
        return stmt.name in self._read
