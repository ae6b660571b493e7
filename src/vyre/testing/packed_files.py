"""Reads files of recorded cases, which may be compressed."""

from __future__ import annotations

import gzip
import lzma
import zlib
from pathlib import Path

from vyre.domain.errors import UnreadableFile


def unpacked(path: Path) -> bytes:
    """Returns the content of a file, decompressed if it is gzip or xz (by content); raises ``UnreadableFile``."""
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            return gzip.decompress(data)
        return lzma.decompress(data) if data.startswith(b"\xfd7zXZ\0") else data
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UnreadableFile(f"cannot read {path}: {error}") from None
