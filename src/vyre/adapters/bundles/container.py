"""The outer form of a ``.vyrz`` file: a manifest and blobs, sealed by one digest.

    magic (8) | version (4) | length of the manifest (4) | manifest | blobs | BLAKE3-256 of all before (32)

Numbers are little-endian.  There are no bytes between the parts, so every byte is covered, and the sizes of the blobs
are in the manifest.  The file is no archive for other tools: it has no file names and no compression, and it is
verified before any of it is interpreted.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from vyre.domain.errors import MalformedBundle

MAGIC: Final = b"VYRZ\r\n\x1a\n"
"""The first bytes of a file; the line ends in it reveal a transfer as text."""
VERSION: Final = 1
DIGEST_BYTES: Final = 32
MAX_BYTES: Final = 256 * 1024 * 1024
"""The largest size of a whole file."""
MAX_MANIFEST_BYTES: Final = 4 * 1024 * 1024
_HEADER: Final = struct.Struct("<8sII")


class Sealed(NamedTuple):
    """The parts of a file: its ``digest``, 32 bytes, the manifest, and the ``blobs`` after the manifest."""

    digest: bytes
    manifest: bytes
    blobs: memoryview


def seal(manifest: bytes, blobs: list[bytes]) -> bytes:
    """Returns the content of a file.  Raises ``MalformedBundle`` for a content that ``unseal`` would refuse."""
    from blake3 import blake3

    body = b"".join([_HEADER.pack(MAGIC, VERSION, len(manifest)), manifest, *blobs])
    if len(manifest) > MAX_MANIFEST_BYTES or len(body) + DIGEST_BYTES > MAX_BYTES:
        raise MalformedBundle(
            f"the bundle takes {len(body) + DIGEST_BYTES} bytes, its manifest {len(manifest)}; the limits are "
            f"{MAX_BYTES} and {MAX_MANIFEST_BYTES}",
            fix="put fewer targets into one bundle.",
        )
    return body + blake3(body).digest()


def unseal(data: bytes) -> Sealed:
    """Returns the parts of a file whose bytes are unchanged since it was written.  Raises ``MalformedBundle``."""
    from blake3 import blake3

    if len(data) > MAX_BYTES:
        raise MalformedBundle(f"it has {len(data)} bytes, more than {MAX_BYTES}")
    if not data.startswith(MAGIC):
        raise MalformedBundle("it is no .vyrz file: the first bytes are others")
    if len(data) < _HEADER.size + DIGEST_BYTES:
        raise MalformedBundle(f"it ends after {len(data)} bytes")
    _, version, manifest_bytes = _HEADER.unpack_from(data)
    body = memoryview(data)[:-DIGEST_BYTES]
    digest = blake3(body).digest()
    if digest != data[-DIGEST_BYTES:]:
        raise MalformedBundle("its bytes are not those that were written: the digest does not match")
    if version != VERSION:
        raise MalformedBundle(
            f"it has version {version} of the format, this vyre reads {VERSION}",
            fix="build it with this version of vyre, or run it with the one that built it.",
        )
    start, end = _HEADER.size, _HEADER.size + manifest_bytes
    if manifest_bytes > MAX_MANIFEST_BYTES or end > len(body):
        raise MalformedBundle(f"its manifest of {manifest_bytes} bytes does not fit")
    return Sealed(digest, data[start:end], body[end:])
