"""Base classes of wrappers: their methods call the same method of the wrapped facet, ``_inner``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vyre.ports.execution import CompiledPipeline, PreparablePipeline
    from vyre.ports.persistent import PersistentEngine, PersistentSteps


class ForwardsPreparation:
    """The methods of a ``PreparablePipeline`` beside those of a ``CompiledPipeline``."""

    __slots__ = ()
    _inner: PreparablePipeline

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        return self._inner.is_prepared(input_nbytes)

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        self._inner.prepare(input_nbytes)


@cache
def is_preparable(pipeline: type[CompiledPipeline]) -> bool:
    """Returns whether pipelines of this class are ``PreparablePipeline``s, which takes long to find out."""
    return all(callable(getattr(pipeline, name, None)) for name in ("is_prepared", "prepare"))


class ForwardsStepLimits:
    """The properties of ``PersistentSteps``."""

    __slots__ = ()
    _inner: PersistentSteps

    @property
    def workers(self) -> int:
        return self._inner.workers

    @property
    def most_steps(self) -> int:
        return self._inner.most_steps


class ForwardsEngine:
    """The members of a ``PersistentEngine`` but ``submit``, ``submit_many``, ``wait`` and ``wait_many``."""

    def __init__(self, inner: PersistentEngine) -> None:
        self._inner = inner
        self.memory: Final = inner.memory
        self.give_back: Final = inner.give_back
        self.take_back: Final = inner.take_back
        self.wait_room: Final = inner.wait_room
        self.subscribe: Final = inner.subscribe
        self.unsubscribe: Final = inner.unsubscribe
        self.rearm: Final = inner.rearm

    @property
    def capacity(self) -> int:
        """Implements ``PersistentEngine.capacity``."""
        return self._inner.capacity

    @property
    def most_jobs(self) -> int:
        """Implements ``PersistentEngine.most_jobs``."""
        return self._inner.most_jobs

    @property
    def output_nbytes(self) -> tuple[int, ...]:
        """Implements ``PersistentEngine.output_nbytes``."""
        return self._inner.output_nbytes

    def done(self, ticket: int, /) -> bool:
        """Implements ``PersistentEngine.done``."""
        return self._inner.done(ticket)

    def drain(self, timeout: float | None = None, /) -> bool:
        """Implements ``PersistentEngine.drain``."""
        return self._inner.drain(timeout)

    def forget(self, ticket: int, /) -> None:
        """Implements ``PersistentEngine.forget``."""
        self._inner.forget(ticket)

    def counters(self) -> Mapping[str, int]:
        """Implements ``PersistentEngine.counters``."""
        return self._inner.counters()

    def close(self) -> None:
        """Implements ``PersistentEngine.close``."""
        self._inner.close()
