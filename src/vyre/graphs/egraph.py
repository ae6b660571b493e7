"""E-graphs: terms and equalities between them, which a session closes under congruence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre.graphs.egraph_terms import Terms

if TYPE_CHECKING:
    from vyre.app.fixpoint import ExecutorName
    from vyre.app.session import Session
    from vyre.graphs.egraph_closed import ClosedEGraph


class EGraph(Terms):
    """Terms and equalities, from which ``close`` computes what is equal by congruence.

    A *term* is an operator with children, which are classes of terms.  Classes are equal because it was said so, or
    because they hold terms of the same operator whose children are pairwise equal (*congruence*).  Terms are numbered
    in the order in which they were added.  Every term added by ``add`` is a class of its own, with the same number,
    until equalities say otherwise; nothing is compared before ``close``, so that a term may be added twice.

    An e-graph is plain data of the host: it belongs to no session, and may be closed, extended and closed again.
    """

    __slots__ = ()

    def close(
        self, session: Session, *, rows: bool = True, slots: int | None = None, executor: ExecutorName | None = None
    ) -> ClosedEGraph:
        """Returns the classes of the least congruence that holds all equalities, computed on the session's backend.

        Without ``rows`` only the classes are read from the device.  The rounds are a fixed point
        (``Session.fixpoint``), and ``executor`` is what repeats them.  ``slots`` is the size of the table that finds
        equal terms, by default four for each term: fewer take less memory, and more time.

        Raises ``PlanError``: ``TableFull`` for a table with fewer slots than there are different terms, ``TooManyRows``
        for an e-graph whose terms have no 32-bit numbers; and what a fixed point raises.
        """
        from vyre.graphs.egraph_closing import close

        return close(self, session, rows=rows, slots=slots, executor=executor)

    def __repr__(self) -> str:
        return f"<EGraph of {len(self)} term(s), {len(self.equalities)} equality(ies)>"
