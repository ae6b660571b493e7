"""What a wrapper of a backend's facets passes on to the wrapped one, which it has as ``_inner``."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre.ports.execution import CompiledPipeline, PreparablePipeline
    from vyre.ports.persistent import PersistentSteps


class ForwardsPreparation:
    """The methods of a ``PreparablePipeline`` beside those of a ``CompiledPipeline``."""

    __slots__ = ()
    _inner: PreparablePipeline

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        """Implements ``PreparablePipeline.is_prepared``."""
        return self._inner.is_prepared(input_nbytes)

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        """Implements ``PreparablePipeline.prepare``."""
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
        """Implements ``PersistentSteps.workers``."""
        return self._inner.workers

    @property
    def most_steps(self) -> int:
        """Implements ``PersistentSteps.most_steps``."""
        return self._inner.most_steps
