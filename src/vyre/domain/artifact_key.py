"""Keys of compiled artifacts: everything that decides their bytes, field by field.

The digest is BLAKE3-256 over a domain tag and, for each field in order, the length-framed name and the length-framed
encoding, so no two keys share an encoding.  Fields stay apart so that a miss can name the one that changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from vyre.domain.errors import MalformedWire
from vyre.domain.names import Dim3

DOMAIN: Final = b"vyre.artifact.v1\0"

Facts: TypeAlias = "tuple[tuple[str, str], ...]"
"""Names and values, sorted by name."""


class ArtifactKind(Enum):
    """What is stored under a key."""

    PTX = "ptx"
    CUBIN = "cubin"
    VALIDATION = "validation"
    PLAN = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactKey:
    """``program``: digest of the program, 32 bytes.  ``interface``: names of its buffers and constants, which appear
    in what is stored.  ``workgroup``: lanes per axis, as launched.  ``spec``: canonical bytes of the specialization.
    ``policy``: options of code generation.  ``target``: the architecture, ``sm_90``.  ``device``: facts about the
    device that the artifact depends on.  ``driver``: its version.  ``tool``: the assembler or linker with its version
    and options.  ``emitter``: digest of the source that generates code, 32 bytes.

    What an artifact does not depend on stays empty, so that it is shared as widely as it may be.
    """

    kind: ArtifactKind
    program: bytes
    interface: tuple[str, ...] = ()
    workgroup: Dim3 = (1, 1, 1)
    spec: bytes = b""
    policy: Facts = ()
    target: str = ""
    device: Facts = ()
    driver: str = ""
    tool: str = ""
    emitter: bytes = b""

    @property
    def digest(self) -> bytes:
        """32 bytes; equal keys and no others share it."""
        from blake3 import blake3

        return blake3(self.encode()).digest()

    def encode(self) -> bytes:
        """The canonical bytes, from which ``decode`` restores the key."""
        parts = [DOMAIN]
        for name, codec in _CODECS.items():
            parts += _frame(name.encode()), _frame(codec.encode(getattr(self, name)))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> ArtifactKey:
        """The inverse of ``encode``; raises ``MalformedWire`` for any other bytes."""
        try:
            if not data.startswith(DOMAIN):
                raise ValueError("it is a key of another version")
            values, rest = {}, data[len(DOMAIN) :]
            for name, codec in _CODECS.items():
                found, rest = _take(rest)
                if found != name.encode():
                    raise ValueError(f"`{name}` is missing")
                value, rest = _take(rest)
                values[name] = codec.decode(value)
            key = cls(**values)
            if rest or key.encode() != data:
                raise ValueError("it is not canonical")
        except ValueError as error:  # of which UnicodeDecodeError is one
            raise MalformedWire(f"not an artifact key: {error}", fix="rebuild the artifact.") from None
        return key

    def differences(self, other: ArtifactKey) -> tuple[str, ...]:
        """Names of the fields in which the keys differ, in order."""
        return tuple(name for name in _CODECS if getattr(self, name) != getattr(other, name))


class _Codec(NamedTuple):
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data


def _take(data: bytes) -> tuple[bytes, bytes]:
    """The first framed item, and what follows it."""
    end = 8 + int.from_bytes(data[:8], "little")
    if len(data) < max(8, end):
        raise ValueError("it ends early")
    return data[8:end], data[end:]


def _frames(items: tuple[str, ...]) -> bytes:
    return b"".join(_frame(item.encode()) for item in items)


def _items(data: bytes) -> tuple[str, ...]:
    found = []
    while data:
        item, data = _take(data)
        found.append(item.decode())
    return tuple(found)


def _pairs(data: bytes) -> Facts:
    items = _items(data)
    if len(items) % 2:
        raise ValueError("a fact has no value")
    return tuple(zip(items[::2], items[1::2], strict=True))


_BYTES: Final = _Codec(bytes, bytes)
_TEXT: Final = _Codec(str.encode, bytes.decode)
_TEXTS: Final = _Codec(_frames, _items)
_FACTS: Final = _Codec(lambda facts: _frames(tuple(text for fact in facts for text in fact)), _pairs)
_CODECS: Final = {
    "kind": _Codec(lambda kind: kind.value.encode(), lambda data: ArtifactKind(data.decode())),
    "program": _BYTES,
    "interface": _TEXTS,
    "workgroup": _Codec(
        lambda size: b"".join(axis.to_bytes(4, "little") for axis in size),
        lambda data: tuple(int.from_bytes(data[at : at + 4], "little") for at in (0, 4, 8)),
    ),
    "spec": _BYTES,
    "policy": _FACTS,
    "target": _TEXT,
    "device": _FACTS,
    "driver": _TEXT,
    "tool": _TEXT,
    "emitter": _BYTES,
}
