"""Emitters ahead of time: one for each target, found by name.

An emitter turns a program under a config into a ``Build``.  A target has one emitter: a second one is refused, where
the first would otherwise win without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NewType

from vyre.domain.errors import InvalidConfig, KernelCompileFailed, UnsupportedFeature, VyreError
from vyre.ports.bundles import Build

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program

AotTargetId = NewType("AotTargetId", str)
"""``sm_90``"""


@dataclass(frozen=True, slots=True)
class AotEmitter:
    """``emit`` compiles a valid program for ``target``; it raises what went wrong."""

    target: AotTargetId
    emit: Callable[[Program, DispatchConfig], Build]


class AotRegistry:
    """Emitters by target.  ``lacks`` lists the tools that are missing for machine code, in words for people."""

    def __init__(self, emitters: Iterable[AotEmitter] = (), lacks: tuple[str, ...] = ()) -> None:
        self._emitters: dict[AotTargetId, AotEmitter] = {}
        self.lacks: Final = lacks
        for emitter in emitters:
            self.add(emitter)

    def add(self, emitter: AotEmitter) -> None:
        """Raises ``InvalidConfig`` for a target that has an emitter."""
        if emitter.target in self._emitters:
            raise InvalidConfig(
                f"two emitters for the target `{emitter.target}`: {self._emitters[emitter.target].emit!r} and "
                f"{emitter.emit!r}",
                fix="add one of them, or give the other a target of its own.",
            )
        self._emitters[emitter.target] = emitter

    @property
    def targets(self) -> tuple[AotTargetId, ...]:
        """Targets that have an emitter, in the order in which they were added."""
        return tuple(self._emitters)

    def emit(self, target: AotTargetId, program: Program, config: DispatchConfig) -> Build:
        """``program`` for ``target``.

        Raises ``UnsupportedFeature`` for a target without an emitter, the typed error of the emitter, and
        ``KernelCompileFailed`` for any other.
        """
        emitter = self._emitters.get(target)
        if emitter is None:
            raise UnsupportedFeature(
                feature=f"aot target {target}",
                backend="aot",
                fix=f"add an emitter for it (`AotRegistry.add`), or use one of {', '.join(self._emitters) or 'none'}.",
            )
        try:
            build = emitter.emit(program, config)
        except VyreError:
            raise
        except Exception as error:  # whatever a foreign emitter raises
            raise KernelCompileFailed(backend=target, compiler_log=str(error)) from error
        if build.target != target:
            raise KernelCompileFailed(backend=target, compiler_log=f"its emitter built for {build.target}")
        return build
