"""Bundles as bytes, and back: a canonical JSON manifest that names the size and digest of every member.

One bundle has one encoding.  A decoded bundle is checked against every rule that a launch relies on, so that a crafted
file is refused here and not during a launch.  Builds for targets that no given form knows are kept as they are written:
they can be named and written again, but cannot run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from vyre.adapters.bundles.container import seal, unseal
from vyre.domain.errors import MalformedBundle
from vyre.domain.frozen import frozen
from vyre.domain.geometry import NO_REACH, LaneReach, Reach
from vyre.domain.ir.buffers import Access, Buffer, BufferHints, MemoryKind
from vyre.domain.ir.size_parameters import written_sizes
from vyre.domain.ir.types import SCALAR_BY_TEXT
from vyre.domain.names import Dim3
from vyre.domain.plain_values import counts, flags, texts
from vyre.domain.program_report import InvalidProgram
from vyre.domain.strict_json import parse
from vyre.ports.bundles import Build, BuildForm, Bundle, SpecConstant

FORMAT: Final = "vyre-bundle/1"
MAX_TARGETS: Final = 64
_TARGET: Final = re.compile(r"[a-z][A-Za-z0-9_+-]{0,63}")
_KIND: Final = re.compile(r"[a-z][a-z0-9]{0,15}")


class Loaded(NamedTuple):
    """A bundle, and the ``digest`` of its file, 32 bytes."""

    bundle: Bundle
    digest: bytes


def encode(bundle: Bundle) -> bytes:
    """Returns the content of a ``.vyrz`` file.  Raises ``MalformedBundle`` for a bundle that ``decode`` would
    refuse.
    """
    _check(bundle)
    return seal(_manifest(bundle), [code for build in bundle.builds for code in build.codes])


def decode(data: bytes, forms: Sequence[BuildForm]) -> Loaded:
    """Returns the bundle in a file, verified.  Raises ``MalformedBundle`` for any bytes that ``encode`` does not
    return.

    The first of ``forms`` that knows a build's target decodes the build.
    """
    digest, manifest, blobs = unseal(data)
    try:
        bundle = _bundle(parse(manifest), blobs, forms)
        _check(bundle)
        if _manifest(bundle) != manifest:
            raise ValueError("it is not written canonically")
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
    if bundle.reach != NO_REACH:
        parts = [[part.buffer, part.axis, *part.ids, part.more, part.of_groups] for part in bundle.reach.axes[0]]
        value["reach"] = {"axes": sorted(bundle.reach.reads), "x": parts}
    if bundle.sizes:
        value["sizes"] = bundle.sizes
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

    value = build.to_json()
    members = [
        {**member, "bytes": len(code), "blake3": blake3(code).hexdigest()}
        for member, code in zip(value["members"], build.codes, strict=True)
    ]
    return {**value, "members": members}


# ---------------------------------------------------------------- reading
def _bundle(value: dict[str, Any], blobs: memoryview, forms: Sequence[BuildForm]) -> Bundle:
    if value["format"] != FORMAT:
        raise ValueError(f"its format is {value['format']!r}, not {FORMAT}")
    cutter = _Cutter(blobs)
    bundle = Bundle(
        program=bytes.fromhex(value["program"]["digest"]),
        name=value["program"]["name"],
        vyre=value["vyre"],
        workgroup=_dim3(value["workgroup"]),
        driven_by_input=value["driven_by_input"],
        reach=_reach(value["reach"]) if "reach" in value else NO_REACH,
        sizes=tuple((name, array, axis) for name, array, axis in value.get("sizes", ())),
        buffers=tuple(map(_buffer, value["buffers"])),
        spec=tuple(SpecConstant(name, dtype, bits) for name, dtype, bits in value["spec"]),
        builds=tuple(_build(build, cutter, forms) for build in value["builds"]),
    )
    cutter.end()
    return bundle


class _Cutter:
    """Splits the blobs into the members, in order."""

    def __init__(self, blobs: memoryview) -> None:
        self._rest = blobs

    def cut(self, nbytes: int, digest: str) -> bytes:
        """Returns the next member.  Raises ``ValueError`` if its digest does not match."""
        from blake3 import blake3

        if not 0 < nbytes <= len(self._rest):
            raise ValueError(f"a member of {nbytes} bytes, where {len(self._rest)} are left")
        code, self._rest = bytes(self._rest[:nbytes]), self._rest[nbytes:]
        if blake3(code).hexdigest() != digest:
            raise ValueError("a member is not the one that the manifest names")
        return code

    def end(self) -> None:
        """Raises ``ValueError`` if bytes are left."""
        if self._rest:
            raise ValueError(f"{len(self._rest)} bytes belong to no member")


def _reach(value: dict[str, Any]) -> LaneReach:
    parts = tuple(Reach(name, axis, (a, b), more, 0, groups) for name, axis, a, b, more, groups in value["x"])
    return LaneReach(frozenset(value["axes"]), (parts, (), ()))


def _build(value: dict[str, Any], cutter: _Cutter, forms: Sequence[BuildForm]) -> Build:
    codes = tuple(cutter.cut(member["bytes"], member["blake3"]) for member in value["members"])
    target = value["target"]
    if not texts(target):
        raise ValueError(f"{target!r} is no target")
    form = next((form for form in forms if form.knows(target)), None)
    return ForeignBuild(value, codes) if form is None else form.build_of(value, codes)


@frozen
class ForeignBuild:
    """A ``Build`` that only another backend understands: its JSON, and its code."""

    written: Mapping[str, Any]
    codes: tuple[bytes, ...]

    @property
    def target(self) -> str:
        """Returns the target as it is written."""
        target: str = self.written["target"]
        return target

    @property
    def member_names(self) -> tuple[str, ...]:
        """Returns the names of the members: target and kind."""
        return tuple(f"{self.target}.{member['kind']}" for member in self.written["members"])

    @property
    def assembler(self) -> None:
        """Returns None: the version of the tool is unknown."""
        return None

    @property
    def origin(self) -> str:
        """Returns a text that says that the code is for another kind of device."""
        return "code of another kind of device"

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON as it was read, without the sizes and digests of the members."""
        members = [{k: v for k, v in m.items() if k not in ("bytes", "blake3")} for m in self.written["members"]]
        return {**self.written, "members": members}

    def problems(self, bundle: Bundle, /) -> Iterator[str]:
        """Yields the members whose kind is not a name; other values cannot be checked."""
        for member in self.written["members"]:
            if not (texts(member["kind"]) and _KIND.fullmatch(member["kind"])):
                yield f"{member['kind']!r} is no kind of code"


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
    """Raises ``MalformedBundle`` with every defect of the bundle."""
    try:
        problems = list(_problems(bundle))
    except TypeError:  # a value that is no number was compared with a number
        problems = ["a value has the wrong type"]
    if problems:
        raise MalformedBundle(f"its manifest is refused: {'; '.join(problems)}")


def _problems(bundle: Bundle) -> Iterator[str]:
    if len(bundle.program) != 32:
        yield "the digest of the program has no 32 bytes"
    if not texts(bundle.vyre, *([] if bundle.name is None else [bundle.name])):
        yield "a name is no text"
    if not flags(bundle.driven_by_input):
        yield "driven_by_input is no bool"
    if not counts(*bundle.reach.reads, most=2):
        yield "the axes of ids are none"
    names = {buffer.name for buffer in bundle.buffers}
    for part in bundle.reach.axes[0]:
        is_known = texts(part.buffer) and part.buffer in names and part.axis in (None, 0) and flags(part.of_groups)
        if not (is_known and counts(*part.ids, least=1) and counts(part.more)):
            yield f"{part.buffer!r} is reached by no number of lanes"
    if not all(texts(*names) and counts(-axis) for *names, axis in bundle.sizes) or (
        written_sizes(bundle.sizes, bundle.buffers) != bundle.sizes
    ):
        yield "a parameter holds no size of an axis"
    if not _sizes(*bundle.workgroup):
        yield f"the workgroup is {bundle.workgroup}"
    for constant in bundle.spec:
        if not (texts(constant.name) and constant.dtype in SCALAR_BY_TEXT and counts(constant.bits, most=2**64 - 1)):
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
            texts(buffer.name)
            and counts(buffer.binding, buffer.count, alignment)
            and not alignment & (alignment - 1)
            and flags(buffer.is_output)
            and buffer.is_bound
            and (buffer.like is None or buffer.like in names)
            and (buffer.output_range is None or _range(*buffer.output_range))
        )
        if not good:
            yield f"the buffer {buffer.name!r} is none that a caller binds"


def _build_problems(bundle: Bundle, build: Build) -> Iterator[str]:
    target = build.target
    if not (texts(target) and _TARGET.fullmatch(target)):
        yield f"{target!r} is no target"
    names = build.member_names
    if not names or len(set(names)) < len(names):
        yield f"{target} has no code, or two of a kind"
    yield from (f"{target}, {problem}" for problem in build.problems(bundle))


def _sizes(*values: object) -> bool:
    return counts(*values, least=1)


def _range(start: object, end: object) -> bool:
    return type(start) is int and type(end) is int and 0 <= start <= end
