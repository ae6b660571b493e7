"""Reading and writing bundle files: reads are bounded in size, writes are durable."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vyre.adapters.bundles.container import DIGEST_BYTES, MAX_BYTES
from vyre.adapters.bundles.manifest import Loaded, decode, encode
from vyre.adapters.files import write_files
from vyre.domain.errors import MalformedBundle, UnexpectedDigest, UnreadableFile
from vyre.ports.bundles import Bundle
from vyre.ports.interrupts import whole


def read_bundle(path: Path, expect: str | None = None) -> Loaded:
    """Returns the bundle in the file at ``path``, verified.

    ``expect`` is the digest of the file in hexadecimal; any other file is refused.  Raises ``UnreadableFile``,
    ``MalformedBundle`` and ``UnexpectedDigest``.
    """
    data = _read(path)
    try:
        loaded = decode(data)
    except MalformedBundle as error:
        raise MalformedBundle(f"{path}: {error.message}", fix=error.fix) from None
    check_digest(f"the bundle {path}", expect, loaded.digest)
    return loaded


def write_bundle(path: Path, bundle: Bundle) -> bytes:
    """Writes the file and returns its digest; when this returns, the whole file survives a loss of power.

    Raises ``UnreadableFile``; a file that existed before is then unchanged.
    """
    data = encode(bundle)
    write_files({path: data}, durable=True)
    return data[-DIGEST_BYTES:]


def check_digest(what: str, expect: str | None, actual: bytes) -> None:
    """Raises ``UnexpectedDigest`` unless ``expect`` is None or the hexadecimal form of ``actual``."""
    if expect is not None and expect.strip().lower() != actual.hex():
        raise UnexpectedDigest(what=what, expected=expect, actual=actual.hex())


@whole
def _read(path: Path) -> bytes:
    """Returns the content of a regular file of at most ``MAX_BYTES``; a longer file is refused unread."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise UnreadableFile(f"cannot read {path}: it is no regular file")
            if facts.st_size > MAX_BYTES:
                raise MalformedBundle(f"{path}: it has {facts.st_size} bytes, more than {MAX_BYTES}")
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: no path at all, such as one with a NUL in it
        raise UnreadableFile(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
