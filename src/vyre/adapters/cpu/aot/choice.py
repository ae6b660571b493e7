"""Which code of the loaded bundles runs a program on this processor, and why other code cannot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vyre.adapters.cpu.native.features import CpuFeatures, host
from vyre.adapters.cpu.runtime.artifact_keys import features_of
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.identity import program_digest
from vyre.ports.bundles import BundledCode, bundled_code

if TYPE_CHECKING:
    from vyre.adapters.cpu.llvm.options import EmitOptions
    from vyre.adapters.kernel_source import KernelSource
    from vyre.domain.ir.program import Program


def choose(source: KernelSource, options: EmitOptions, features: CpuFeatures) -> BundledCode | None:
    """Returns the code of the highest level for a launch of ``source`` on a processor with these features.

    Of equal levels it is that which is closest to ``options``; None where nothing fits.
    """
    codes = [code for code in bundled_code(program_digest(source.program)) if code.key.kind is ArtifactKind.OBJECT]
    fitting = [code for code in codes if not any(_reasons(code, source, options, features))]
    return max(fitting, key=lambda code: _rank(code, options), default=None)


def refusals(source: KernelSource, options: EmitOptions, features: CpuFeatures) -> tuple[tuple[str, str], ...]:
    """Returns all code of the program in loaded bundles by name, with the reasons why it does not fit."""
    codes = bundled_code(program_digest(source.program))
    return tuple((code.name, ", ".join(_reasons(code, source, options, features))) for code in codes)


def codes_for_c(program: Program) -> tuple[BundledCode, ...]:
    """Returns the code of a program in loaded bundles for this system and architecture, one for each level.

    It is for one thread and any grid, and comes in the order of levels, the highest first.
    """
    levels: dict[str, BundledCode] = {}
    for code in bundled_code(program_digest(program)):
        key, policy = code.key, dict(code.key.policy)
        if key.kind is not ArtifactKind.OBJECT or (key.target, key.driver) != (host().arch, sys.platform):
            continue
        fits_any_grid = key.workgroup == program.workgroup_size and policy["joined"] == "false"
        if fits_any_grid and (code.target not in levels or policy["exclusive"] == "true"):
            levels[code.target] = code
    return tuple(sorted(levels.values(), key=lambda code: -len(code.key.device)))


def choose_runtime(key: ArtifactKey, features: CpuFeatures) -> BundledCode | None:
    """Returns the runtime of worker threads in the loaded bundles; None where none has that of this version of vyre.

    ``key`` is the key of the runtime on this machine.
    """
    codes = [code for code in bundled_code(key.program) if code.key.emitter == key.emitter]
    fitting = [code for code in codes if not any(_machine_reasons(code, features))]
    return max(fitting, key=lambda code: len(code.key.device), default=None)


def _rank(code: BundledCode, options: EmitOptions) -> tuple[int, bool, bool]:
    policy = dict(code.key.policy)
    closest = policy["exclusive"] == str(options.exclusive).lower()
    return len(code.key.device), closest, policy["joined"] == "true"


def _machine_reasons(code: BundledCode, features: CpuFeatures) -> Iterator[str]:
    if code.key.kind is not ArtifactKind.OBJECT:
        yield "it is code of another kind of device"
        return
    if code.key.driver != sys.platform:
        yield f"it is for the system {code.key.driver}, not {sys.platform}"
    lacking = features.lacks(features_of(code.key))
    if lacking:
        yield f"it needs {', '.join(lacking)}"


def _reasons(code: BundledCode, source: KernelSource, options: EmitOptions, features: CpuFeatures) -> Iterator[str]:
    yield from _machine_reasons(code, features)
    if code.key.kind is not ArtifactKind.OBJECT:
        return
    if code.key.workgroup != source.sized.workgroup_size:
        yield f"it is for a workgroup of {code.key.workgroup}"
    if code.key.spec != source.constants:
        yield "it is for other constants"
    policy = {name: value == "true" for name, value in code.key.policy}
    if policy["counting"] != options.counting:
        yield "it counts no steps"
    if options.wide and not policy["wide"]:
        yield "it is for buffers of less than 2^31 bytes"
    if policy["exclusive"] and not options.exclusive:
        yield "it is for one thread"
    if policy["joined"] and not options.joined:
        yield "it is for a grid of one axis"
