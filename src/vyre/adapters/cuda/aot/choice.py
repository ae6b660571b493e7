"""Which code of the loaded bundles runs on a device, and why other code cannot.

PTX text runs on its own capability and every higher one.  A target with the suffix ``a`` (architecture-specific) runs
on that capability only, one with ``f`` (family) on its major with a minor not below its own.  Machine code runs on the
major it was made for, with a minor not below its own.  A driver reads PTX up to a version of its own, and machine code
made by toolkits of its major or an older one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from vyre.adapters.cuda.decisions.ptx_target import highest_version
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.artifact_keys import interface_names, policy_facts
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts
from vyre.adapters.kernel_source import KernelSource
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.identity import program_digest
from vyre.ports.bundles import BundledCode, bundled_code

_TARGET: Final = re.compile(r"sm_([1-9][0-9]{1,2})([af]?)")
_VERSION: Final = re.compile(rb"\.version ([1-9][0-9]?)\.([0-9])\n")
_TOOLKIT: Final = re.compile(r"([1-9][0-9]?)\.[0-9]+")
_ALIKE: Final = ("native_grid_sync", "folded", "mailbox", "pointer_table")
"""The options that code and launch must agree on, beside the switches."""
_INLINED: Final = "switches.inline_uniforms"


def choose(
    source: KernelSource, options: EmitOptions, facts: CudaDeviceFacts, *, machine_code: bool
) -> BundledCode | None:
    """Returns the code for a launch of ``source`` on a device: machine code before text, then the highest target.

    ``machine_code`` tells whether the driver accepts machine code.  None where nothing fits.
    """
    fitting = [
        code
        for code in bundled_code(program_digest(source.program))
        if _serves(code.key, source, options) and not any(reasons(code, facts, machine_code=machine_code))
    ]
    return max(fitting, key=_rank, default=None)


def _rank(code: BundledCode) -> tuple[bool, int, str, int]:
    number, suffix = _parsed(code) or (0, "")
    return code.key.kind is ArtifactKind.CUBIN, number, suffix, len(dict(code.key.policy)["assume"])


def _parsed(code: BundledCode) -> tuple[int, str] | None:
    match = _TARGET.fullmatch(code.target)
    return None if match is None else (int(match[1]), match[2])


def _serves(key: ArtifactKey, source: KernelSource, options: EmitOptions) -> bool:
    """Returns whether code under a key does what a launch asks for, wherever it runs."""
    if key.kind not in (ArtifactKind.PTX, ArtifactKind.CUBIN) or key.spec != source.constants:
        return False
    if key.workgroup != source.sized.workgroup_size or key.interface != interface_names(source.sized):
        return False
    has, wanted = dict(key.policy), dict(policy_facts(options))
    alike = (*_ALIKE, *(name for name in wanted if name.startswith("switches.") and name != _INLINED))
    return (
        all(has.get(name) == wanted[name] for name in alike)
        and set(has["assume"].split(",")) - {""} <= set(wanted["assume"].split(","))
        and int(has["parameter_limit"]) <= options.parameter_limit
        and (wanted[_INLINED] == "true" or has[_INLINED] == "false")
    )


def reasons(code: BundledCode, facts: CudaDeviceFacts, *, machine_code: bool) -> Iterator[str]:
    """Yields the reasons why code cannot run on a device."""
    parsed = _parsed(code)
    if parsed is None or code.key.kind is ArtifactKind.OBJECT:
        yield "it is code of another kind of device"
        return
    (number, suffix), is_text = parsed, code.key.kind is ArtifactKind.PTX
    same_major, higher = number // 10 == facts.target // 10, facts.target >= number
    if suffix == "a":
        if facts.target != number:
            yield f"it is specific to sm_{number}"
    elif not is_text or suffix == "f":
        if not (same_major and higher):
            yield f"it runs on capability {number // 10}.{number % 10} and higher minors of {number // 10} only"
    elif not higher:
        yield f"it needs sm_{number} or higher"
    if is_text:
        match = _VERSION.match(code.artifact.code)
        if match is None or (int(match[1]), int(match[2])) > highest_version(facts.driver_version):
            yield "the driver does not read this version of PTX"
    elif not machine_code:
        yield "this driver runs no machine code"
    else:
        toolkit = _TOOLKIT.fullmatch(code.key.tool)
        if toolkit is None or int(toolkit[1]) > facts.driver_version // 1000:
            yield "the driver is older than the toolkit that made it"
