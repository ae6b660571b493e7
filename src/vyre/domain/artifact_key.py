"""Keys of compiled artifacts: all facts that determine an artifact's bytes, field by field.

The digest is BLAKE3-256 over a domain tag and, for each field in order, the length-framed name and the length-framed
encoding, so no two keys share an encoding.  The fields are kept, so that a cache miss can be explained by the field
that changed.

Fields that the configuration determines precede those that the program determines: a ``KeyFamily`` encodes the first
part once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple, TypeAlias

from blake3 import blake3

from vyre.domain.errors import MalformedWire
from vyre.domain.frozen import frozen
from vyre.domain.names import Dim3

DOMAIN: Final = b"vyre.artifact.v1\0"

Facts: TypeAlias = "tuple[tuple[str, str], ...]"
"""Pairs of a name and a value, sorted by name."""


def facts(values: Mapping[str, str]) -> Facts:
    """Returns ``values`` in the form that a key holds."""
    return tuple(sorted(values.items()))


class ArtifactKind(Enum):
    """The kind of an artifact: PTX text, a CUBIN image, an object of the host's machine code, or a stored verdict."""

    PTX = "ptx"
    CUBIN = "cubin"
    OBJECT = "object"
    VERDICT = "verdict"


@frozen(kw_only=True)
class ArtifactKey:
    """The key of a compiled artifact.

    ``kind``: PTX text, a CUBIN image, an object of machine code, or a stored verdict.
    ``target``: the architecture, such as ``sm_90`` or ``x86_64``.
    ``device``: facts about the device on which the artifact depends.
    ``driver``: the version of the driver.
    ``tool``: the assembler, compiler or linker with its version and options.
    ``emitter``: the digest, 32 bytes, of the source code that generates code.
    ``policy``: options of code generation.
    ``program``: the digest, 32 bytes, of the program.
    ``interface``: the program's buffers as a caller sees them, which the artifact contains.
    ``workgroup``: lanes per axis, as launched.
    ``spec``: canonical bytes of the specialization.

    Fields on which an artifact does not depend stay empty, so that as many launches as possible share it.
    """

    kind: ArtifactKind
    target: str = ""
    device: Facts = ()
    driver: str = ""
    tool: str = ""
    emitter: bytes = b""
    policy: Facts = ()
    program: bytes
    interface: tuple[str, ...] = ()
    workgroup: Dim3 = (1, 1, 1)
    spec: bytes = b""
    _encoded: bytes = field(default=b"", init=False, repr=False, compare=False)
    _digest: bytes = field(default=b"", init=False, repr=False, compare=False)

    @property
    def digest(self) -> bytes:
        """Returns the BLAKE3-256 digest of ``encode``, 32 bytes, computed once."""
        if not self._digest:
            object.__setattr__(self, "_digest", blake3(self.encode()).digest())
        return self._digest

    def encode(self) -> bytes:
        """Returns the canonical bytes of the key; ``decode`` is the inverse."""
        if not self._encoded:
            encoded = b"".join((DOMAIN, *(_field(name, getattr(self, name)) for name in FIELDS)))
            object.__setattr__(self, "_encoded", encoded)
        return self._encoded

    @classmethod
    def decode(cls, data: bytes) -> ArtifactKey:
        """Returns the key that these bytes encode; raises ``MalformedWire`` for bytes that ``encode`` does not
        produce.
        """
        try:
            if not data.startswith(DOMAIN):
                raise ValueError("it is a key of another version")
            items = _framed(data, len(DOMAIN))
            values = {}
            for name, codec in _CODECS.items():
                if next(items, b"") != name.encode():
                    raise ValueError(f"`{name}` is missing")
                values[name] = codec.decode(next(items, b""))
            key = cls(**values)
            if key.encode() != data:
                raise ValueError("it is not canonical")
        except (ValueError, StructError) as error:  # UnicodeDecodeError is a ValueError
            raise MalformedWire(f"not an artifact key: {error}", fix="rebuild the artifact.") from None
        return key

    def differences(self, other: ArtifactKey) -> tuple[str, ...]:
        """Returns the names of the fields in which the keys differ, in the order of ``FIELDS``."""
        return tuple(name for name in FIELDS if getattr(self, name) != getattr(other, name))


class KeyFamily:
    """The keys that equal ``common`` in all fields that the configuration determines."""

    __slots__ = ("_common", "_head")

    def __init__(self, common: ArtifactKey) -> None:
        self._common: Final = common
        shared = FIELDS[: FIELDS.index("program")]
        self._head: Final = b"".join((DOMAIN, *(_field(name, getattr(common, name)) for name in shared)))

    def key(self, program: bytes, interface: tuple[str, ...], workgroup: Dim3, spec: bytes) -> ArtifactKey:
        """Returns ``replace(common, program=program, ...)``, with its encoding already computed."""
        common = self._common
        key = ArtifactKey(
            kind=common.kind,
            target=common.target,
            device=common.device,
            driver=common.driver,
            tool=common.tool,
            emitter=common.emitter,
            policy=common.policy,
            program=program,
            interface=interface,
            workgroup=workgroup,
            spec=spec,
        )
        names = b"".join([_frame(_text(name)) for name in interface]) if interface else b""
        size = _WORKGROUP.pack(*workgroup)
        length = _LENGTH.pack
        own = (
            *(_NAMES["program"], length(len(program)), program),
            *(_NAMES["interface"], length(len(names)), names),
            *(_NAMES["workgroup"], length(len(size)), size),
            *(_NAMES["spec"], length(len(spec)), spec),
        )  # the bytes that ``_field`` returns, in half the time
        object.__setattr__(key, "_encoded", b"".join((self._head, *own)))
        return key


class _Codec(NamedTuple):
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


_LENGTH: Final = Struct("<Q")
_WORKGROUP: Final = Struct("<3I")


def _frame(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _framed(data: bytes, start: int = 0) -> Iterator[bytes]:
    """Yields the framed items from ``start`` on; raises ``ValueError`` if the last one is truncated."""
    while start < len(data):
        end = start + 8
        if end <= len(data):
            start, end = end, end + _LENGTH.unpack_from(data, start)[0]
        if end > len(data):
            raise ValueError("it ends early")
        yield data[start:end]
        start = end


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")  # the name of a buffer may be any str


def _from_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _pairs(data: bytes) -> Facts:
    items = [_from_text(item) for item in _framed(data)]
    if len(items) % 2:
        raise ValueError("a fact has no value")
    return tuple(zip(items[::2], items[1::2], strict=True))


_BYTES: Final = _Codec(bytes, bytes)
_TEXT: Final = _Codec(_text, _from_text)
_FACTS: Final = _Codec(lambda value: b"".join([_frame(_text(text)) for fact in value for text in fact]), _pairs)
_CODECS: Final = {
    "kind": _Codec(lambda kind: _text(kind.value), lambda data: ArtifactKind(_from_text(data))),
    "target": _TEXT,
    "device": _FACTS,
    "driver": _TEXT,
    "tool": _TEXT,
    "emitter": _BYTES,
    "policy": _FACTS,
    "program": _BYTES,
    "interface": _Codec(
        lambda names: b"".join([_frame(_text(name)) for name in names]),
        lambda data: tuple(map(_from_text, _framed(data))),
    ),
    "workgroup": _Codec(lambda size: _WORKGROUP.pack(*size), _WORKGROUP.unpack),
    "spec": _BYTES,
}
FIELDS: Final = tuple(_CODECS)
"""Names of the fields, in the order of their encodings."""
_NAMES: Final = {name: _frame(name.encode()) for name in FIELDS}


def _field(name: str, value: object) -> bytes:
    return _NAMES[name] + _frame(_CODECS[name].encode(value))
