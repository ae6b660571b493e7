"""Emitted modules as bytes, and back: the layout as canonical JSON, the PTX unchanged.

The layout also describes machine code that was assembled from the PTX.  Decoded values are checked against the rules
that a launcher relies on, whatever the source of the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from vyre.adapters.cuda.ptx.kernel import Assumption, EmittedKernel, EmittedModule, Init, Parameter, ParameterKind
from vyre.domain.errors import MalformedWire
from vyre.domain.plain_values import counts, texts
from vyre.domain.strict_json import canonical, parse
from vyre.ports.artifact_store import Artifact

FORMAT: Final = "vyre-module/1"
_TARGET: Final = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")
_VERSION: Final = re.compile(r"[1-9][0-9]?\.[0-9]")
_ENTRY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")


class ModuleLayout(NamedTuple):
    """A module without its code; the fields are those of ``EmittedModule``."""

    target: str
    version: str
    kernels: tuple[EmittedKernel, ...]


# ---------------------------------------------------------------- modules
def to_artifact(module: EmittedModule, cost_ns: int = 0) -> Artifact:
    """Returns the artifact that a store keeps of ``module``, which took ``cost_ns`` to emit."""
    return Artifact(encode_layout(layout_of(module)), module.ptx.encode("ascii"), cost_ns)


def from_artifact(artifact: Artifact) -> EmittedModule:
    """Inverts ``to_artifact``; raises ``MalformedWire`` for any other artifact."""
    layout = decode_layout(artifact.metadata)
    if not artifact.code.isascii() or b"\0" in artifact.code:
        raise _malformed("its PTX is no text")
    module = EmittedModule(artifact.code.decode("ascii"), *layout)
    if not module.ptx.startswith(f".version {module.version}\n.target {module.target}\n"):
        raise _malformed("its PTX is for another target or of another version")
    entries = re.findall(r"^\.visible \.entry (\w+)\($", module.ptx, re.MULTILINE)
    if entries != [kernel.entry for kernel in module.kernels]:
        raise _malformed("its PTX has other entries")
    return module


def layout_of(module: EmittedModule) -> ModuleLayout:
    """Returns the layout of a module."""
    return ModuleLayout(module.target, module.version, module.kernels)


def encode_layout(layout: ModuleLayout) -> bytes:
    """Returns a layout as canonical JSON."""
    value = {
        "format": FORMAT,
        "target": layout.target,
        "version": layout.version,
        "kernels": [kernel.to_json() for kernel in layout.kernels],
    }
    return canonical(value).encode("ascii")


def decode_layout(data: bytes) -> ModuleLayout:
    """Inverts ``encode_layout``; raises ``MalformedWire`` for any other bytes."""
    try:
        value = parse(data.decode("ascii"))
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        layout = ModuleLayout(value["target"], value["version"], tuple(map(kernel_from_json, value["kernels"])))
        problems = list(_problems(layout))
        if problems:
            raise ValueError("; ".join(problems))
        if encode_layout(layout) != data:
            raise ValueError("it is not written canonically")
    except KeyError as missing:
        raise _malformed(f"it lacks {missing}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise _malformed(str(error)) from None
    return layout


def _malformed(problem: str) -> MalformedWire:
    return MalformedWire(f"not an emitted module: {problem}", fix="rebuild the artifact.")


def _problems(layout: ModuleLayout) -> Iterator[str]:
    if not (texts(layout.target) and _TARGET.fullmatch(layout.target)):
        yield f"{layout.target!r} is no target"
    if not (texts(layout.version) and _VERSION.fullmatch(layout.version)):
        yield f"{layout.version!r} is no version of PTX"
    yield from kernels_problems(layout.kernels)


# ---------------------------------------------------------------- kernels
def kernel_from_json(value: dict[str, Any]) -> EmittedKernel:
    """Returns the kernel that ``EmittedKernel.to_json`` wrote.

    Raises ``KeyError``, ``TypeError``, ``ValueError`` or ``AttributeError`` for another structure; ``kernels_problems``
    checks its values.
    """
    x, y, z = value["block"]
    return EmittedKernel(
        value["entry"],
        (x, y, z),
        tuple(map(_parameter_from_json, value["params"])),
        value["param_bytes"],
        value["shared_static"],
        value["shared_dynamic"],
        value["cooperative"],
        tuple(map(Assumption, value["assumes"])),
        tuple(value["trap_tags"]),
    )


def _parameter_from_json(value: dict[str, Any]) -> Parameter:
    init = value.get("init")
    return Parameter(
        ParameterKind(value["kind"]),
        value["offset"],
        value["size"],
        value["align"],
        value["name"],
        value["binding"],
        value["dtype"],
        None if init is None else Init(init),
        value.get("bytes"),
        value.get("value"),
    )


def kernels_problems(kernels: tuple[EmittedKernel, ...]) -> Iterator[str]:
    """Yields the defects of a module's kernels that do not depend on the program: types, sizes, overlaps."""
    entries = [kernel.entry for kernel in kernels]
    if not kernels or not texts(*entries) or len(set(entries)) < len(entries):
        yield "it has no kernel, or two of a name"
    for kernel in kernels:
        yield from (f"{kernel.entry!r}: {problem}" for problem in _kernel_problems(kernel))


def _kernel_problems(kernel: EmittedKernel) -> Iterator[str]:
    if not (texts(kernel.entry) and _ENTRY.fullmatch(kernel.entry)):
        yield "it has no name of an entry"
    if not counts(*kernel.block, least=1):
        yield f"its block is {kernel.block}"
    if not counts(kernel.shared_static, kernel.shared_dynamic, kernel.parameter_bytes):
        yield "a size is none"
    if type(kernel.cooperative) is not bool or not texts(*kernel.trap_tags):
        yield "its facts have wrong types"
    end = 0
    for parameter in kernel.parameters:
        if not (counts(parameter.offset, parameter.size, parameter.align) and parameter.offset >= end):
            yield "its parameters overlap"
            return
        end = parameter.offset + parameter.size
        if not _is_parameter(parameter):
            yield f"its {parameter.kind.value} parameter at {parameter.offset} is none"
    if not counts(kernel.parameter_bytes, least=end):
        yield f"its parameters take {end} bytes, not {kernel.parameter_bytes}"
    if not kernel.trap_tags and any(p.kind is ParameterKind.TRAP for p in kernel.parameters):
        yield "it traps without a tag"


_WORDS: Final = {ParameterKind.COUNT, ParameterKind.UNIFORM, ParameterKind.SCALAR, ParameterKind.GRID}
_POINTERS: Final = frozenset(set(ParameterKind) - _WORDS)
_OWN: Final = frozenset(
    {ParameterKind.TRAP, ParameterKind.BARRIER, ParameterKind.SCRATCH, ParameterKind.TABLE, ParameterKind.MAILBOX}
)


def _is_parameter(parameter: Parameter) -> bool:
    """Returns whether a parameter has the fields that a launcher needs for its kind."""
    kind, size, align = parameter.kind, parameter.size, parameter.align
    if not 0 < align <= 16 or align & (align - 1) or parameter.offset % align or not size:
        return False
    if (kind in _POINTERS and size != 8) or (kind is ParameterKind.COUNT and size != 4):
        return False
    if kind in _OWN:
        return counts(parameter.nbytes) and parameter.binding is None
    if kind is ParameterKind.GRID:
        return size == 4 and counts(parameter.value, most=2)
    if parameter.binding is None:  # a word of the emitter's own
        return kind is ParameterKind.SCALAR and size in (4, 8) and counts(parameter.value, most=256**size - 1)
    return counts(parameter.binding) and texts(parameter.name, parameter.dtype)
