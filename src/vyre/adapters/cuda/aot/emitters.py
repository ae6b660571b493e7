"""The ahead-of-time emitters for CUDA: they make PTX, and machine code if an assembler is installed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from vyre.adapters.cuda.code_tools import Assembler, AssemblyFailed, assemble
from vyre.adapters.cuda.decisions.ptx_target import BASE_VERSIONS, sm_number
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.module_form import to_artifact
from vyre.adapters.cuda.ptx.options import ALL_ON, EmitOptions
from vyre.adapters.cuda.runtime.arena import ARENA_FACTS
from vyre.adapters.cuda.runtime.artifact_keys import ptx_keys
from vyre.adapters.kernel_source import KernelSource
from vyre.adapters.optimizing import passes_for, prepared
from vyre.domain.artifact_key import ArtifactKind
from vyre.domain.device import EngineKind
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import KernelCompileFailed
from vyre.domain.grid_sync import has_grid_barriers, has_grid_loops
from vyre.domain.ir.program import Program
from vyre.ports.artifact_store import Artifact
from vyre.ports.bundles import AotEmitter, AotTargetId, Build, BundledCode

NO_ASSEMBLER: Final = "no ptxas was found"


def cuda_emitters(assembler: Assembler | None) -> tuple[AotEmitter, ...]:
    """Returns one emitter for every target that the PTX emitter knows; with an ``assembler`` they also make machine
    code.
    """
    targets = [AotTargetId(f"sm_{number}") for number in BASE_VERSIONS]
    return tuple(AotEmitter(target, partial(emit_cuda, target, assembler)) for target in targets)


def emit_cuda(target: AotTargetId, assembler: Assembler | None, program: Program, config: DispatchConfig) -> Build:
    """Returns PTX for ``target`` and, if there is an ``assembler``, machine code.

    There is code for arrays that a dispatch copies, and for resident arrays of which nothing is known.  Grid barriers
    are split into kernels, which run on every device and at every grid, and there is one cooperative kernel too; a
    program with a grid loop has that kernel alone.  Parameters stay within the size that every driver accepts.  Raises
    the errors of the emitter, and ``KernelCompileFailed`` with the assembler's log.
    """
    source = KernelSource.of(program, config.spec, config.workgroup)
    passes = passes_for(source.sized, config, EngineKind.DEVICE, True, None)
    codes: list[BundledCode] = []
    for options in _variants(program, EmitOptions(target=sm_number(target), passes=passes)):
        module = emit(prepared(source, passes), options, source.literals)
        key = ptx_keys(options).key(source.program, source.spec, source.sized.workgroup_size)
        text = to_artifact(module)
        codes.append(BundledCode(target, key, text))
        if assembler is not None:
            try:
                cubin, _ = assemble(assembler, module.ptx, target)
            except AssemblyFailed as error:
                raise KernelCompileFailed(backend=target, compiler_log=str(error)) from None
            assembled = replace(key, kind=ArtifactKind.CUBIN, tool="{}.{}".format(*assembler.version))
            codes.append(BundledCode(target, assembled, Artifact(text.metadata, cubin)))
    if assembler is None:
        return Build(tuple(codes), "PTX only")
    major, minor = assembler.version
    return Build(tuple(codes), f"machine code by ptxas of CUDA {major}.{minor}", assembler.version)


def _variants(program: Program, options: EmitOptions) -> Iterator[EmitOptions]:
    resident = replace(options, switches=replace(ALL_ON, inline_uniforms=False))
    for each in (replace(options, assume=ARENA_FACTS), resident):
        yield each
        if has_grid_barriers(program) and not has_grid_loops(program):
            yield replace(each, native_grid_sync=False)
