"""Base classes of wrappers: their methods call the same method of the wrapped facet, ``_inner``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.ports.execution import CompiledPipeline, PipelineCompiler, PreparablePipeline
    from vyre.ports.persistent import PersistentEngine, PersistentSteps
    from vyre.ports.requests import OutputStorage


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


class ForwardsCompiler:
    """The methods of a ``PipelineCompiler`` but ``compile``."""

    def __init__(self, inner: PipelineCompiler) -> None:
        self._inner = inner
        self.cache_counters: Final = inner.cache_counters
        self.forget: Final = inner.forget


class KeptStorage:
    """Storage of a caller that remembers the views of the outputs."""

    __slots__ = ("_storage", "views")

    def __init__(self, storage: OutputStorage) -> None:
        self._storage = storage
        self.views: tuple[memoryview, ...] = ()

    @property
    def nbytes(self) -> int:
        """Returns the size of the outputs in bytes."""
        return sum(view.nbytes for view in self.views)

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """Implements ``OutputStorage.begin``."""
        self.views = self._storage.begin(sizes)
        return self.views

    def clear(self) -> None:
        """Implements ``OutputStorage.clear``."""
        self.views = ()
        self._storage.clear()


class ForwardsEngine:
    """The members of a ``PersistentEngine`` that do not speak of jobs that have ended."""

    def __init__(self, inner: PersistentEngine) -> None:
        self._inner = inner
        self.memory: Final = inner.memory
        self.give_back: Final = inner.give_back
        self.take_back: Final = inner.take_back
        self.wait_room: Final = inner.wait_room
        self.subscribe: Final = inner.subscribe
        self.unsubscribe: Final = inner.unsubscribe
        self.rearm: Final = inner.rearm
        self.capacity: Final = inner.capacity
        self.most_jobs: Final = inner.most_jobs
        self.output_nbytes: Final = inner.output_nbytes
