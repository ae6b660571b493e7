"""Emitters ahead of time: one for each target, found by name.

An emitter compiles a program under a config to the code of a ``Build``.  A target has one emitter: a second one is
refused, so that the order of additions never decides which one is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from vyre.domain.errors import InvalidConfig, KernelCompileFailed, UnsupportedFeature, VyreError
from vyre.ports.bundles import AotEmitter, AotTargetId, Build

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program


class AotRegistry:
    """Emitters by target.

    ``lacks`` lists the tools that are missing for machine code, in words for people; ``groups`` has names that stand
    for several targets.
    """

    def __init__(
        self,
        emitters: Iterable[AotEmitter] = (),
        lacks: tuple[str, ...] = (),
        groups: Mapping[str, tuple[AotTargetId, ...]] = MappingProxyType({}),
    ) -> None:
        self._emitters: dict[AotTargetId, AotEmitter] = {}
        self.lacks: Final = lacks
        self.groups: Final = groups
        for emitter in emitters:
            self.add(emitter)

    def add(self, emitter: AotEmitter) -> None:
        """Adds an emitter; raises ``InvalidConfig`` for a target that already has one."""
        if emitter.target in self._emitters:
            raise InvalidConfig(
                f"two emitters for the target `{emitter.target}`: {self._emitters[emitter.target].emit!r} and "
                f"{emitter.emit!r}",
                fix="add one of them, or give the other a target of its own.",
            )
        self._emitters[emitter.target] = emitter

    @property
    def targets(self) -> tuple[AotTargetId, ...]:
        """Returns the targets that have an emitter, in the order of their addition."""
        return tuple(self._emitters)

    def expanded(self, targets: Sequence[str]) -> tuple[str, ...]:
        """Returns ``targets`` with those of each group in its place."""
        return tuple(each for target in targets for each in self.groups.get(target, (target,)))

    def emit(self, target: AotTargetId, program: Program, config: DispatchConfig) -> Build:
        """Returns the code of ``program`` for ``target``.

        Raises ``UnsupportedFeature`` for a target without an emitter, the typed error of the emitter, and
        ``KernelCompileFailed`` for any other exception.
        """
        emitter = self._emitters.get(target)
        if emitter is None:
            known, lacks = (*self.groups, *self._emitters), "".join(f"; {lack}" for lack in self.lacks)
            raise UnsupportedFeature(
                feature=f"aot target {target}",
                backend="aot",
                fix=f"add an emitter for it (`AotRegistry.add`), or use one of {', '.join(known) or 'none'}{lacks}.",
            )
        try:
            build = emitter.emit(program, config)
        except VyreError:
            raise
        except Exception as error:  # an emitter of another package may raise anything
            raise KernelCompileFailed(backend=target, compiler_log=str(error)) from error
        others = {code.target for code in build.codes} - {target}
        if others or not build.codes:
            log = f"its emitter built for {', '.join(sorted(others)) or 'nothing'}"
            raise KernelCompileFailed(backend=target, compiler_log=log)
        return build
