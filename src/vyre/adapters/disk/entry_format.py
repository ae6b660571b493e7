"""The format of an entry's file: a header, the full key, metadata, code, and a digest of all of it.

Integers are little-endian.

    offset  bytes
    0       8      magic
    8       4      version of this format
    12      4      k, length of the key
    16      8      m, length of the metadata
    24      8      c, length of the code
    32      8      time that building it took, in ns
    40      k      the key, as ``ArtifactKey.encode`` writes it
    40+k    m      metadata
    40+k+m  c      code
    ...     32     BLAKE3-256 of everything before
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from blake3 import blake3

from vyre.domain.record import U64_MAX
from vyre.ports.artifact_store import Artifact

MAGIC: Final = b"\x93VYART\r\n"  # not ASCII, and changed by any translation of line ends
VERSION: Final = 1
DIGEST_BYTES: Final = 32
_HEADER: Final = Struct("<8sIIQQQ")
HEADER_BYTES: Final = _HEADER.size
MAX_KEY_BYTES: Final = 1 << 20
MAX_ENTRY_BYTES: Final = 1 << 30


class Damaged(Exception):
    """The bytes are not an entry; ``str`` says why."""


class Header(NamedTuple):
    """The header of an entry, with the lengths of its parts."""

    key_bytes: int
    metadata_bytes: int
    code_bytes: int
    cost_ns: int


class Entry(NamedTuple):
    """An entry; ``key`` is encoded."""

    key: bytes
    artifact: Artifact


def encode(key: bytes, artifact: Artifact) -> bytes:
    """Returns the bytes of an entry's file."""
    metadata, code = artifact.metadata, artifact.code
    cost_ns = min(max(artifact.cost_ns, 0), U64_MAX)
    header = _HEADER.pack(MAGIC, VERSION, len(key), len(metadata), len(code), cost_ns)
    content = b"".join((header, key, metadata, code))
    return content + blake3(content).digest()


def decode(data: bytes) -> Entry:
    """Returns the entry, verified; raises ``Damaged``."""
    key_bytes, metadata_bytes, code_bytes, cost_ns = read_header(data)
    metadata_at = HEADER_BYTES + key_bytes
    code_at = metadata_at + metadata_bytes
    total = code_at + code_bytes + DIGEST_BYTES
    if total != len(data):
        raise Damaged(f"it has {len(data)} bytes and should have {total}")
    if blake3(memoryview(data)[:-DIGEST_BYTES]).digest() != data[-DIGEST_BYTES:]:
        raise Damaged("its digest does not match")
    artifact = Artifact(data[metadata_at:code_at], data[code_at:-DIGEST_BYTES], cost_ns)
    return Entry(data[HEADER_BYTES:metadata_at], artifact)


def read_header(data: bytes) -> Header:
    """Returns the header at the start of ``data``, unverified: only ``decode`` verifies it.  Raises ``Damaged``."""
    if len(data) < HEADER_BYTES:
        raise Damaged(f"it ends after {len(data)} bytes")
    magic, version, *fields = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Damaged("it does not begin as an entry does")
    if version != VERSION:
        raise Damaged(f"it is of format {version}, not {VERSION}")
    return Header(*fields)
