"""The ahead-of-time emitters for processors: objects of machine code, by LLVM at full effort."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from vyre.adapters.cpu.aot.levels import LEVELS, levels_of
from vyre.adapters.cpu.native.compilation import Effort, compile_object, llvm_version
from vyre.adapters.cpu.native.features import CpuFeatures, host
from vyre.adapters.cpu.runtime.artifact_keys import object_keys, runtime_key
from vyre.adapters.cpu.runtime.stored_form import encode_layout
from vyre.ports.artifact_store import Artifact
from vyre.ports.bundles import AotEmitter, AotTargetId, Build, BundledCode, OwnEmitters

if TYPE_CHECKING:
    from vyre.adapters.cpu.llvm.options import EmitOptions
    from vyre.adapters.kernel_source import KernelSource
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program

GROUP: Final = "cpu"
"""The name that stands for all levels of this machine's architecture."""
NO_LLVM: Final = "no llvmlite, which compiles for `cpu`, was found"


class CpuBundles:
    """``BundleSupport`` for processors."""

    __slots__ = ()

    @property
    def default_target(self) -> str:
        """Returns ``cpu``."""
        return GROUP

    def emitters(self, *, machine_code: bool) -> OwnEmitters:
        """Returns emitters for all levels, or none where llvmlite is not installed."""
        if llvm_version() is None:
            return OwnEmitters((), NO_LLVM)
        emitters = tuple(AotEmitter(target, partial(emit_cpu, target)) for target in LEVELS)
        return OwnEmitters(emitters, groups={GROUP: levels_of(host().arch)})

    def c_files(self, name: str, entries: Mapping[str, Program], /) -> Mapping[str, bytes]:
        from vyre.adapters.cpu.aot.c_files import c_files

        return c_files(name, entries)


def emit_cpu(target: AotTargetId, program: Program, config: DispatchConfig) -> Build:
    """Returns the code of a program for the processors of a level, and of the worker threads that run it.

    It is for buffers of less than 2^31 bytes, and counts no steps.  Raises the errors of emission and compilation.
    """
    from vyre.adapters.cpu.runtime.variants import VariantInputs, variants_of
    from vyre.adapters.kernel_source import KernelSource
    from vyre.adapters.optimizing import passes_for
    from vyre.domain.analysis.atomic_uses import atomic_uses
    from vyre.domain.device import EngineKind

    features = LEVELS[target]
    source = KernelSource.of(program, config.spec, config.workgroup)
    passes = passes_for(source.sized, config, EngineKind.NATIVE, True, None)
    variants = set(variants_of(VariantInputs(source.sized, features, threads=2, passes=passes), None))
    if atomic_uses(source.sized):
        variants |= {options._replace(exclusive=True) for options in variants}
    codes = [_code(target, features, source, options) for options in sorted(variants)]
    return Build((*codes, replace(_runtime(features.arch), target=target)), f"machine code by LLVM ({llvm_version()})")


def _code(target: AotTargetId, features: CpuFeatures, source: KernelSource, options: EmitOptions) -> BundledCode:
    from vyre.adapters.cpu.llvm.emit import emit
    from vyre.adapters.cpu.runtime.code import first_choice, layout_of
    from vyre.adapters.optimizing import prepared

    key = object_keys(features, options, llvm_version() or "", sys.platform).key(
        source.program, source.spec, source.sized.workgroup_size
    )
    emitted = emit(prepared(source, options.passes), options, source.literals)
    effort = Effort.QUICK if first_choice(emitted.text, None) is Effort.QUICK else Effort.FULL
    named = emitted.renamed(f"vyre_{key.digest.hex()[:16]}_")
    artifact = Artifact(encode_layout(layout_of(named, effort)), compile_object(named.text, features, effort))
    return BundledCode(target, key, artifact)


@cache
def _runtime(arch: str) -> BundledCode:
    """Returns the runtime of worker threads, which is the same for all levels of an architecture."""
    from vyre.adapters.cpu.pool.machine import Target
    from vyre.adapters.cpu.pool.translation import runtime_text
    from vyre.adapters.cpu.runtime.runtime_code import METADATA

    target = levels_of(arch)[0]
    code = compile_object(runtime_text(Target(arch, sys.platform)), LEVELS[target], Effort.FULL)
    return BundledCode(target, runtime_key(LEVELS[target], llvm_version() or ""), Artifact(METADATA, code))
