"""The ahead-of-time emitters for CUDA: they make PTX, and machine code if an assembler is installed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from vyre.adapters.cuda.aot.build import Build, Member, MemberKind
from vyre.adapters.cuda.assembler import Assembler, AssemblyFailed, assemble, newest_assembler
from vyre.adapters.cuda.decisions.ptx_target import BASE_VERSIONS, sm_number
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.arena import ARENA_FACTS
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import KernelCompileFailed
from vyre.domain.grid_sync import has_grid_loops
from vyre.domain.ir.program import Program
from vyre.domain.specialization import spec_literals
from vyre.ports.bundles import AotEmitter, AotTargetId, OwnEmitters

NO_ASSEMBLER: Final = "no ptxas was found"


def own_emitters(*, machine_code: bool) -> OwnEmitters:
    """Returns the emitters of this installation; with ``machine_code`` they use the installed assembler, if there is
    one.
    """
    assembler = newest_assembler() if machine_code else None
    return OwnEmitters(cuda_emitters(assembler), NO_ASSEMBLER if machine_code and assembler is None else "")


def cuda_emitters(assembler: Assembler | None) -> tuple[AotEmitter, ...]:
    """Returns one emitter for every target that the PTX emitter knows; with an ``assembler`` they also make machine
    code.
    """
    targets = [AotTargetId(f"sm_{number}") for number in BASE_VERSIONS]
    return tuple(AotEmitter(target, partial(emit_cuda, target, assembler)) for target in targets)


def emit_cuda(target: str, assembler: Assembler | None, program: Program, config: DispatchConfig) -> Build:
    """Returns a build with PTX for ``target`` and, if there is an ``assembler``, machine code.

    Grid barriers are split into kernels, which run on every device and at every grid; but a program with a grid loop is
    one cooperative kernel, whose workgroups must all be resident, because a bundle looks at nothing between kernels.
    Parameters stay within the size that every driver accepts.  Raises the errors of the emitter, and
    ``KernelCompileFailed`` with the assembler's log.
    """
    if config.workgroup is not None:
        program = replace(program, workgroup_size=config.workgroup)
    options = EmitOptions(target=sm_number(target), assume=ARENA_FACTS, native_grid_sync=has_grid_loops(program))
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
