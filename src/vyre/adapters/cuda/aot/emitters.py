"""Emitters ahead of time: one for each target, found by name.

An emitter turns a program under a config into a ``Build``.  A target has one emitter: a second one is refused, where
the first would otherwise win without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NewType

from vyre.adapters.cuda.aot.bundle import Build, Member, MemberKind
from vyre.adapters.cuda.assembler import Assembler, AssemblyFailed, assemble
from vyre.adapters.cuda.decisions.ptx_target import BASE_VERSIONS, sm_number
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.arena import ARENA_FACTS
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidConfig, KernelCompileFailed, UnsupportedFeature, VyreError
from vyre.domain.ir.program import Program
from vyre.domain.specialization import spec_literals

AotTargetId = NewType("AotTargetId", str)
"""``sm_90``"""


@dataclass(frozen=True, slots=True)
class AotEmitter:
    """``emit`` compiles a valid program for ``target``; it raises what went wrong."""

    target: AotTargetId
    emit: Callable[[Program, DispatchConfig], Build]


class AotRegistry:
    """Emitters by target."""

    def __init__(self) -> None:
        self._emitters: dict[AotTargetId, AotEmitter] = {}

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


def cuda_emitters(assembler: Assembler | None) -> AotRegistry:
    """One for every target that the PTX emitter knows; with machine code where there is an ``assembler``."""
    registry = AotRegistry()
    for number in BASE_VERSIONS:
        target = AotTargetId(f"sm_{number}")
        registry.add(AotEmitter(target, partial(emit_cuda, target, assembler)))
    return registry


def emit_cuda(target: str, assembler: Assembler | None, program: Program, config: DispatchConfig) -> Build:
    """PTX for ``target`` and, by ``assembler``, its machine code.

    Grid barriers are split into kernels, which run on every device and at every grid.  Parameters stay within what
    every driver takes.  Raises what the emitter raises, and ``KernelCompileFailed`` with the assembler's log.
    """
    if config.workgroup is not None:
        program = replace(program, workgroup_size=config.workgroup)
    options = EmitOptions(target=sm_number(target), assume=ARENA_FACTS, native_grid_sync=False)
    module = emit(program, options, spec_literals(program, config.spec))
    major, minor = map(int, module.version.split("."))
    members = [Member(MemberKind.PTX, (major, minor), module.ptx.encode())]
    if assembler is not None:
        try:
            cubin, _ = assemble(assembler, module.ptx, target)
        except AssemblyFailed as error:
            raise KernelCompileFailed(backend=target, compiler_log=str(error)) from None
        members.append(Member(MemberKind.CUBIN, assembler.version, cubin))
    return Build(module.target, module.kernels, tuple(members))
