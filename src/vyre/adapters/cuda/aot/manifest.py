"""Bundles as bytes, and back: a canonical JSON manifest that names the size and digest of every member.

One bundle has one encoding.  What is read is held against every rule that a launch relies on, so that a crafted file
is refused here and not half-way through a launch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from vyre.adapters.cuda.aot.bundle import (
    MAX_TARGETS,
    Build,
    Bundle,
    Member,
    MemberKind,
    SpecConstant,
)
from vyre.adapters.cuda.aot.container import seal, unseal
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, Parameter, ParameterKind
from vyre.adapters.cuda.ptx.module_form import kernel_from_json, kernels_problems
from vyre.domain.errors import InvalidProgram, MalformedBundle
from vyre.domain.ir.buffers import Access, Buffer, BufferHints, MemoryKind
from vyre.domain.ir.types import SCALAR_BY_TEXT
from vyre.domain.names import Dim3

FORMAT: Final = "vyre-bundle/1"
_TARGET: Final = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")
_U32: Final = 0xFFFF_FFFF


class Loaded(NamedTuple):
    """``digest``: of the file, 32 bytes."""

    bundle: Bundle
    digest: bytes


def encode(bundle: Bundle) -> bytes:
    """The content of a ``.vyrz`` file.  Raises ``MalformedBundle`` for one that ``decode`` would refuse."""
    _check(bundle)
    members = [member.code for build in bundle.builds for member in build.members]
    return seal(_manifest(bundle), members)


def decode(data: bytes) -> Loaded:
    """The bundle in a file, verified.  Raises ``MalformedBundle`` for any bytes that ``encode`` does not give."""
    digest, manifest, blobs = unseal(data)
    try:
        bundle = _bundle(json.loads(manifest), blobs)
        _check(bundle)
        if _manifest(bundle) != manifest:
            raise ValueError("it is not written canonically")
    except RecursionError:
        raise MalformedBundle("its manifest is nested too deeply") from None
    except KeyError as missing:
        raise MalformedBundle(f"its manifest lacks, or does not know, {missing}") from None
    except (ValueError, TypeError, AttributeError, OverflowError, InvalidProgram) as error:
        raise MalformedBundle(f"its manifest is refused: {error}") from None
    return Loaded(bundle, digest)


# ---------------------------------------------------------------- writing
def _manifest(bundle: Bundle) -> bytes:
    value = {
        "format": FORMAT,
        "vyre": bundle.vyre,
        "program": {"digest": bundle.program.hex(), "name": bundle.name},
        "spec": [[constant.name, constant.dtype, constant.bits] for constant in bundle.spec],
        "workgroup": list(bundle.workgroup),
        "driven_by_input": bundle.driven_by_input,
        "buffers": [_buffer_json(buffer) for buffer in bundle.buffers],
        "builds": [_build_json(build) for build in bundle.builds],
    }
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode("utf-8", "surrogatepass")  # names of buffers may hold anything that a str does


def _buffer_json(buffer: Buffer) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "binding": buffer.binding,
        "access": buffer.access.name,
        "element": buffer.element.text,
        "count": buffer.count,
        "is_output": buffer.is_output,
        "kind": buffer.kind.name,
        "like": buffer.like,
        "output_range": None if buffer.output_range is None else list(buffer.output_range),
        "alignment": buffer.hints.preferred_alignment,
    }


def _build_json(build: Build) -> dict[str, Any]:
    from blake3 import blake3

    return {
        "target": build.target,
        "needs": build.needs._asdict(),
        "kernels": [kernel.to_json() for kernel in build.kernels],
        "members": [
            {
                "kind": member.kind.value,
                "version": list(member.version),
                "bytes": len(member.code),
                "blake3": blake3(member.code).hexdigest(),
            }
            for member in build.members
        ],
    }


# ---------------------------------------------------------------- reading
def _bundle(value: dict[str, Any], blobs: memoryview) -> Bundle:
    if value["format"] != FORMAT:
        raise ValueError(f"its format is {value['format']!r}, not {FORMAT}")
    cutter = _Cutter(blobs)
    bundle = Bundle(
        program=bytes.fromhex(value["program"]["digest"]),
        name=value["program"]["name"],
        vyre=value["vyre"],
        workgroup=_dim3(value["workgroup"]),
        driven_by_input=value["driven_by_input"],
        buffers=tuple(map(_buffer, value["buffers"])),
        spec=tuple(SpecConstant(name, dtype, bits) for name, dtype, bits in value["spec"]),
        builds=tuple(_build(build, cutter) for build in value["builds"]),
    )
    cutter.end()
    return bundle


class _Cutter:
    """Cuts the members off, in order."""

    def __init__(self, blobs: memoryview) -> None:
        self._rest = blobs

    def cut(self, nbytes: int, digest: str) -> bytes:
        from blake3 import blake3

        if not 0 < nbytes <= len(self._rest):
            raise ValueError(f"a member of {nbytes} bytes, where {len(self._rest)} are left")
        code, self._rest = bytes(self._rest[:nbytes]), self._rest[nbytes:]
        if blake3(code).hexdigest() != digest:
            raise ValueError("a member is not the one that the manifest names")
        return code

    def end(self) -> None:
        if self._rest:
            raise ValueError(f"{len(self._rest)} bytes belong to no member")


def _build(value: dict[str, Any], cutter: _Cutter) -> Build:
    return Build(
        value["target"],
        tuple(map(kernel_from_json, value["kernels"])),
        tuple(
            Member(MemberKind(m["kind"]), _version(m["version"]), cutter.cut(m["bytes"], m["blake3"]))
            for m in value["members"]
        ),
    )


def _buffer(value: dict[str, Any]) -> Buffer:
    wanted = value["output_range"]
    return Buffer(
        value["name"],
        value["binding"],
        Access[value["access"]],
        SCALAR_BY_TEXT[value["element"]],
        value["count"],
        value["is_output"],
        MemoryKind[value["kind"]],
        value["like"],
        None if wanted is None else _version(wanted),
        BufferHints(preferred_alignment=value["alignment"]),
    )


def _version(value: list[int]) -> tuple[int, int]:
    first, second = value
    return first, second


def _dim3(value: list[int]) -> Dim3:
    x, y, z = value
    return x, y, z


# ---------------------------------------------------------------- what a launch relies on
def _check(bundle: Bundle) -> None:
    """Raises ``MalformedBundle`` with everything that is wrong, if anything is."""
    try:
        problems = list(_problems(bundle))
    except TypeError:  # compared a number with what is none
        problems = ["a value has the wrong type"]
    if problems:
        raise MalformedBundle(f"its manifest is refused: {'; '.join(problems)}")


def _problems(bundle: Bundle) -> Iterator[str]:
    if len(bundle.program) != 32:
        yield "the digest of the program has no 32 bytes"
    if not _texts(bundle.vyre, *([] if bundle.name is None else [bundle.name])):
        yield "a name is no text"
    if not _flags(bundle.driven_by_input):
        yield "driven_by_input is no bool"
    if not _sizes(*bundle.workgroup):
        yield f"the workgroup is {bundle.workgroup}"
    for constant in bundle.spec:
        if not (_texts(constant.name) and constant.dtype in SCALAR_BY_TEXT and _counts(constant.bits, most=2**64 - 1)):
            yield f"the constant {constant.name!r} has no type and bits"
    yield from _buffer_problems(bundle.buffers)
    targets = [build.target for build in bundle.builds]
    if not 0 < len(targets) <= MAX_TARGETS or len(set(targets)) < len(targets):
        yield f"the targets are {', '.join(map(str, targets)) or 'none'}"
    for build in bundle.builds:
        yield from _build_problems(bundle, build)


def _buffer_problems(buffers: tuple[Buffer, ...]) -> Iterator[str]:
    names = [buffer.name for buffer in buffers]
    bindings = [buffer.binding for buffer in buffers]
    if len(set(names)) < len(names) or bindings != sorted(set(bindings)):
        yield "buffers are not in binding order, or share a name or number"
    for buffer in buffers:
        alignment = buffer.hints.preferred_alignment
        good = (
            _texts(buffer.name)
            and _counts(buffer.binding, buffer.count, alignment)
            and not alignment & (alignment - 1)
            and _flags(buffer.is_output)
            and not buffer.is_workgroup
            and (buffer.like is None or buffer.like in names)
            and (buffer.output_range is None or _range(*buffer.output_range))
        )
        if not good:
            yield f"the buffer {buffer.name!r} is none that a caller binds"


def _build_problems(bundle: Bundle, build: Build) -> Iterator[str]:
    target = build.target
    if not (_texts(target) and _TARGET.fullmatch(target)):
        yield f"{target!r} is no target"
    kinds = [member.kind for member in build.members]
    if not kinds or len(set(kinds)) < len(kinds):
        yield f"{target} has no code, or two of a kind"
    if not all(_counts(*member.version, most=999) for member in build.members):
        yield f"{target} has code of no version"
    if any(member.kind is MemberKind.PTX and not _is_text(member.code) for member in build.members):
        yield f"{target} has PTX that is no text"
    yield from (f"{target}, {problem}" for problem in kernels_problems(build.kernels))
    for kernel in build.kernels:
        yield from (f"{target}, {kernel.entry!r}: {problem}" for problem in _kernel_problems(bundle, kernel))


def _kernel_problems(bundle: Bundle, kernel: EmittedKernel) -> Iterator[str]:
    """What of a kernel does not fit the bundle."""
    if kernel.block != bundle.workgroup:
        yield f"its block is {kernel.block}, the workgroup {bundle.workgroup}"
    for parameter in kernel.parameters:
        if not _fits(parameter, bundle.buffers):
            yield f"its {parameter.kind.value} parameter at {parameter.offset} does not fit"


def _fits(parameter: Parameter, buffers: tuple[Buffer, ...]) -> bool:
    """Whether a launcher can fill ``parameter`` with what its kind says."""
    buffer = next((b for b in buffers if b.binding == parameter.binding), None)
    named = buffer is not None and buffer.name == parameter.name and buffer.element.text == parameter.dtype
    size = parameter.size
    match parameter.kind:
        case ParameterKind.POINTER:
            return named and size == 8
        case ParameterKind.COUNT:
            return named and size == 4
        case ParameterKind.UNIFORM:
            return named and buffer is not None and 0 < size == buffer.static_nbytes
        case ParameterKind.SCALAR if parameter.binding is None:
            return size in (4, 8) and _counts(parameter.value, most=256**size - 1)
        case ParameterKind.SCALAR:
            return named and buffer is not None and buffer.is_push and size == SCALAR_BY_TEXT[buffer.element.text].size
        case ParameterKind.TRAP:
            return size == 8 and parameter.nbytes == 32
        case ParameterKind.TABLE:
            return size == 8 and parameter.nbytes == 16 * sum(not b.is_push for b in buffers)
        case _:
            return size == 8 and _counts(parameter.nbytes)


def _texts(*values: object) -> bool:
    return all(type(value) is str for value in values)


def _is_text(code: bytes) -> bool:
    return code.isascii() and b"\0" not in code


def _flags(*values: object) -> bool:
    return all(type(value) is bool for value in values)


def _counts(*values: object, most: int = _U32) -> bool:
    return all(type(value) is int and 0 <= value <= most for value in values)


def _sizes(*values: object) -> bool:
    return _counts(*values) and 0 not in values


def _range(start: object, end: object) -> bool:
    return type(start) is int and type(end) is int and 0 <= start <= end
