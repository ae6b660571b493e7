"""A queue of jobs: one engine, and the tickets whose results were not collected yet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final
from weakref import ref

from vyre.domain.errors import VyreError
from vyre.ports.persistent import JobMemory, PersistentEngine

if TYPE_CHECKING:
    from vyre.app.persistent.tickets import Ticket

_MOST_COLLECTED: Final = (1, 2)
"""One for each result that is collected with one submission, at most: more than come, so that none are left behind."""


class JobQueue:
    """The jobs of one engine.  All methods may be called from any thread.

    Results of jobs that have ended are collected when memory for another job is asked for.  So a caller who submits
    many jobs before it collects any needs memory for those under way only, and what is read and written is in the
    processor's cache still.  A ticket that nobody holds any longer is not kept by the queue.
    """

    __slots__ = ("_tickets", "engine")

    def __init__(self, engine: PersistentEngine) -> None:
        self.engine: Final = engine
        self._tickets: deque[ref[Ticket]] = deque()

    def memory(self) -> JobMemory:
        """Returns memory for a job.  Raises ``DeviceOutOfMemory``."""
        tickets = self._tickets
        for _ in _MOST_COLLECTED:
            if not tickets:
                break
            try:
                oldest = tickets.popleft()
            except IndexError:  # another thread has taken it
                break
            ticket = oldest()
            memory = None if ticket is None else ticket.memory
            if memory is None:
                continue  # nobody wants the result any longer, or has it
            if not memory.has_ended:
                tickets.appendleft(oldest)
                break
            assert ticket is not None
            try:
                ticket.collect()
            except VyreError:  # it is raised to who asks for the result
                break
        return self.engine.memory()

    def add(self, ticket: Ticket) -> None:
        """Notes the ticket of a job that was submitted."""
        self._tickets.append(ref(ticket))
