"""Bundles as bytes, and back: a canonical JSON manifest that names the size and digest of every member.

One bundle has one encoding.  Programs and keys are decoded, and so checked, when a file is read; the layout of code is
checked by the backend that takes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from vyre.adapters.bundles.container import seal, unseal
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.errors import MalformedBundle, MalformedWire
from vyre.domain.ir.program import Program
from vyre.domain.plain_values import texts
from vyre.domain.printable import shown
from vyre.domain.program_report import InvalidProgram
from vyre.domain.strict_json import parse
from vyre.ports.artifact_store import Artifact
from vyre.ports.bundles import AotTargetId, Bundle, BundledCode

FORMAT: Final = "vyre-bundle/1"
MOST_ENTRIES: Final = 4096
"""The largest number of entry points of a bundle."""
MOST_NAME: Final = 256
"""The largest number of characters in the name of an entry point."""
_TARGET: Final = re.compile(r"[a-z][A-Za-z0-9_+-]{0,63}")
_KINDS: Final = (ArtifactKind.PTX, ArtifactKind.CUBIN, ArtifactKind.OBJECT)


class Loaded(NamedTuple):
    """A bundle, and the ``digest`` of its file, 32 bytes."""

    bundle: Bundle
    digest: bytes


def encode(bundle: Bundle) -> bytes:
    """Returns the content of a ``.vyrz`` file.  Raises ``MalformedBundle`` for a bundle that ``decode`` would
    refuse.
    """
    _check(bundle)
    return seal(*_parts(bundle))


def decode(data: bytes) -> Loaded:
    """Returns the bundle in a file, verified.  Raises ``MalformedBundle`` for any bytes that ``encode`` does not
    return.
    """
    digest, manifest, blobs = unseal(data)
    try:
        bundle = _bundle(parse(manifest), blobs)
        _check(bundle)
        if _parts(bundle)[0] != manifest:
            raise ValueError("it is not written canonically")
    except KeyError as missing:
        raise MalformedBundle(f"its manifest lacks, or does not know, {missing}") from None
    except (ValueError, TypeError, AttributeError, OverflowError, InvalidProgram) as error:
        raise MalformedBundle(f"its manifest is refused: {error}") from None
    except MalformedWire as error:
        raise MalformedBundle(f"its manifest is refused: {error.message}") from None
    return Loaded(bundle, digest)


def _parts(bundle: Bundle) -> tuple[bytes, list[bytes]]:
    """Returns the manifest of a bundle, and its members."""
    programs = [program.to_wire() for program in bundle.entries.values()]
    value = {
        "format": FORMAT,
        "vyre": bundle.vyre,
        "entries": [
            {"name": name, "program": program.digest.hex(), **_member(wire)}
            for (name, program), wire in zip(bundle.entries.items(), programs, strict=True)
        ],
        "codes": [
            {
                "target": code.target,
                "key": code.key.encode().hex(),
                "layout": _member(code.artifact.metadata),
                "code": _member(code.artifact.code),
            }
            for code in bundle.codes
        ],
    }
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    members = [part for code in bundle.codes for part in (code.artifact.metadata, code.artifact.code)]
    return text.encode("utf-8", "surrogatepass"), programs + members


def _member(content: bytes) -> dict[str, Any]:
    from blake3 import blake3

    return {"bytes": len(content), "blake3": blake3(content).hexdigest()}


# ---------------------------------------------------------------- reading
def _bundle(value: dict[str, Any], blobs: memoryview) -> Bundle:
    if value["format"] != FORMAT:
        raise ValueError(f"its format is {value['format']!r}, not {FORMAT}")
    cutter = _Cutter(blobs)
    entries = {}
    for entry in value["entries"]:
        program = Program.from_wire(cutter.cut(entry))
        if program.digest.hex() != entry["program"]:
            raise ValueError(f"the program of {entry['name']!r} is another than it names")
        if entry["name"] in entries:
            raise ValueError(f"two entry points have the name {entry['name']!r}")
        entries[entry["name"]] = program
    codes = []
    for code in value["codes"]:
        key = ArtifactKey.decode(bytes.fromhex(code["key"]))
        artifact = Artifact(cutter.cut(code["layout"]), cutter.cut(code["code"]))
        codes.append(BundledCode(AotTargetId(code["target"]), key, artifact))
    cutter.end()
    return Bundle(value["vyre"], entries, tuple(codes))


class _Cutter:
    """Splits the blobs into the members, in order."""

    def __init__(self, blobs: memoryview) -> None:
        self._rest = blobs

    def cut(self, member: dict[str, Any]) -> bytes:
        """Returns the next member.  Raises ``ValueError`` if it is not the one that the manifest names."""
        nbytes = member["bytes"]
        if not 0 < nbytes <= len(self._rest):
            raise ValueError(f"a member of {nbytes} bytes, where {len(self._rest)} are left")
        content, self._rest = bytes(self._rest[:nbytes]), self._rest[nbytes:]
        if _member(content)["blake3"] != member["blake3"]:
            raise ValueError("a member is not the one that the manifest names")
        return content

    def end(self) -> None:
        """Raises ``ValueError`` if bytes are left."""
        if self._rest:
            raise ValueError(f"{len(self._rest)} bytes belong to no member")


def _check(bundle: Bundle) -> None:
    """Raises ``MalformedBundle`` with every defect of the bundle."""
    problems = list(_problems(bundle))
    if problems:
        raise MalformedBundle(f"its manifest is refused: {'; '.join(problems)}")


def _problems(bundle: Bundle) -> Iterator[str]:
    if not texts(bundle.vyre):
        yield "the version of vyre is no text"
    if not 0 < len(bundle.entries) <= MOST_ENTRIES:
        yield f"it has {len(bundle.entries)} entry points, not 1 to {MOST_ENTRIES}"
    for name in bundle.entries:
        if not (texts(name) and 0 < len(name) <= MOST_NAME):
            yield f"{shown(name)} is no name of an entry point"
    for code in bundle.codes:
        if not (texts(code.target) and _TARGET.fullmatch(code.target)):
            yield f"{code.target!r} is no target"
        if code.key.kind not in _KINDS:
            yield f"{code.target} has code of the kind {code.key.kind.value}"
    if len({code.key.digest for code in bundle.codes}) < len(bundle.codes):
        yield "it has two pieces of code for one key"
