"""Evidence bundles as files: a ZIP archive without compression whose comment is the digest of all bytes before it.

Any tool opens the archive.  It holds ``manifest.json``, which is canonical JSON and names every other file with its
size and BLAKE3 digest.  The comment, 64 hexadecimal digits at the very end, is the BLAKE3 digest of everything before
it, so that every byte is covered, those of the archive's own tables included.  The digests notice damage; they are no
signature, and anybody can write a bundle.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from vyre.adapters.files import read_file, write_files
from vyre.domain.errors import InvalidInput, MalformedBundle, MalformedJson
from vyre.domain.evidence.records import DISPATCH, FORM, Content, Evidence
from vyre.domain.strict_json import NotStrictJson, canonical, parse
from vyre.domain.value_json import from_json, to_json

MANIFEST: Final = "manifest.json"
MAX_BYTES: Final = 1 << 30
"""The largest size of a bundle."""
MAX_FILES: Final = 4096
ARCHIVE: Final = b"PK\x03\x04"
"""The first bytes of a bundle."""
DIGEST_DIGITS: Final = 64
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_FIX: Final = "use the file as it was written, or write the evidence again."
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    OverflowError,
)
"""The exceptions that the reader of archives raises for bytes that are no archive."""


class Stored(NamedTuple):
    """A bundle: its manifest, and the content of every other file by path."""

    evidence: Evidence
    files: Mapping[str, bytes]


def content_of(path: str, data: bytes) -> Content:
    """Returns how a manifest names a file."""
    return Content(path, len(data), _digest(data))


def encode(evidence: Evidence, files: Mapping[str, bytes]) -> bytes:
    """Returns the bytes of a bundle.  Raises ``InvalidInput`` for one beyond the limits of size."""
    manifest = canonical(_document(evidence)).encode()
    size = len(manifest) + sum(map(len, files.values()))
    if size > MAX_BYTES // 2 or len(files) >= MAX_FILES:
        raise InvalidInput(
            f"the evidence has {len(files)} files of {size} bytes; the limits are {MAX_FILES} and {MAX_BYTES // 2}",
            fix="run the program on less data.",
        )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for path, data in {MANIFEST: manifest, **files}.items():
            member = zipfile.ZipInfo(path, _EPOCH)
            member.external_attr = 0o644 << 16
            archive.writestr(member, data)
        archive.comment = bytes(DIGEST_DIGITS)
    body = stream.getvalue()[:-DIGEST_DIGITS]
    return body + _digest(body).encode()


def decode(data: bytes) -> Stored:
    """Returns the bundle in the bytes of a file, verified.

    Raises ``MalformedBundle``, which names the damaged file where that can be told, for bytes that ``encode`` did not
    return.
    """
    if len(data) > MAX_BYTES:
        _refuse(f"it has {len(data)} bytes, more than {MAX_BYTES}")
    if not data.startswith(ARCHIVE):
        _refuse("it is no evidence bundle: the first bytes are others")
    whole = data[-DIGEST_DIGITS:] == _digest(data[:-DIGEST_DIGITS]).encode()
    try:
        files = _members(data)
        evidence = _evidence(files.pop(MANIFEST, None))
        _check_files(evidence, files)
    except _UNREADABLE as error:
        _refuse(f"it ends too early, or the tables of the archive are damaged ({_one_line(error)})")
    if not whole:
        _refuse("every file in it is whole, but bytes between or behind them are not those that were written")
    return Stored(evidence, files)


def _document(evidence: Evidence) -> dict[str, Any]:
    """Returns the manifest as JSON; what an earlier vyre did not know is written only where it is not the usual."""
    document: dict[str, Any] = to_json(evidence)
    if evidence.work is None:
        del document["work"]
    if evidence.run is not None and evidence.run.way == DISPATCH:
        del document["run"]["way"]
    return document


def read_bundle(path: Path) -> Stored:
    """Returns the bundle in a file.  Raises ``UnreadableFile`` and ``MalformedBundle``, which name the path."""
    data = read_file(path, max_bytes=MAX_BYTES)
    try:
        return decode(data)
    except MalformedBundle as error:
        raise MalformedBundle(f"{path}: {error.message}", fix=error.fix) from None


def write_bundle(path: Path, evidence: Evidence, files: Mapping[str, bytes]) -> None:
    """Writes a bundle: the file appears whole or not at all, and one that existed before is replaced.

    Raises ``UnreadableFile`` where it cannot be written, and ``InvalidInput`` for one that is too large.
    """
    write_files({path: encode(evidence, files)}, durable=True)


def _members(data: bytes) -> dict[str, bytes]:
    """Returns the files of the archive by path; raises what the reader of archives raises."""
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if len(members) > MAX_FILES:
            _refuse(f"it holds {len(members)} files, more than {MAX_FILES}")
        for member in members:
            if member.filename in files:
                _refuse(f"it holds `{_one_line(member.filename)}` twice")
            if member.compress_type != zipfile.ZIP_STORED or not member.file_size == member.compress_size <= len(data):
                _refuse(f"`{_one_line(member.filename)}` is compressed, or its size is not that of its bytes")
            try:
                files[member.filename] = archive.read(member)
            except _UNREADABLE as error:
                where = f"`{_one_line(member.filename)}` (from byte {member.header_offset} of the bundle)"
                _refuse(f"{where} is not what was written ({_one_line(error)})")
    return files


def _evidence(manifest: bytes | None) -> Evidence:
    if manifest is None:
        _refuse(f"it holds no `{MANIFEST}`")
    try:
        text = manifest.decode("ascii")
        document = parse(text)
        written = canonical(document) == text
        form = document.get("form") if isinstance(document, dict) else None
        if type(form) is int and form != FORM:
            raise MalformedBundle(
                f"its form has version {form}, and this vyre reads {FORM}", fix="read it with the vyre that wrote it."
            )
        evidence: Evidence = from_json(Evidence, document)
    except UnicodeDecodeError:
        _refuse(f"`{MANIFEST}` is no ASCII text")
    except NotStrictJson as error:
        _refuse(f"`{MANIFEST}` {error}")
    except MalformedJson as error:
        _refuse(f"`{MANIFEST}` is refused: {error.message}")
    if not written or _document(evidence) != document:
        _refuse(f"`{MANIFEST}` is not written canonically")
    return evidence


def _check_files(evidence: Evidence, files: Mapping[str, bytes]) -> None:
    named = {content.path: content for content in evidence.contents()}
    for problem in _problems(named, files):
        _refuse(problem)
    if len(named) != sum(1 for _ in evidence.contents()) or list(named) != list(files):
        _refuse(f"`{MANIFEST}` names a file twice, or the files are in another order")


def _problems(named: Mapping[str, Content], files: Mapping[str, bytes]) -> Iterator[str]:
    for path, content in named.items():
        if path not in files:
            yield f"`{_one_line(path)}` is missing"
        elif len(files[path]) != content.nbytes:
            yield f"`{_one_line(path)}` has {len(files[path])} bytes, and {content.nbytes} were written"
        elif (digest := _digest(files[path])) != content.blake3:
            wanted = _one_line(content.blake3)
            yield f"`{_one_line(path)}` is not what was written: its digest is {digest}, not {wanted}"
    yield from (f"`{_one_line(path)}` was added: the manifest does not name it" for path in files.keys() - named.keys())


def _digest(data: bytes) -> str:
    from blake3 import blake3

    return blake3(data).hexdigest()


def _one_line(value: object) -> str:
    from vyre.domain.printable import one_line

    return one_line(str(value))


def _refuse(problem: str) -> NoReturn:
    raise MalformedBundle(problem, fix=_FIX)
