"""Device signatures in TOML, a file a family: whatever a file holds, reading it gives devices and diagnostics.

docs/device-signatures.md has the schema and the codes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple

from vyre.domain.device_signature import DeviceSignature
from vyre.domain.diagnostics import Diagnostic, Severity
from vyre.domain.errors import InvalidField
from vyre.domain.nesting import is_toml_nested_beyond
from vyre.domain.printable import shown
from vyre.domain.source_location import UNSHOWN, SourceLocation
from vyre.domain.strict_json import MAX_DEPTH

MAX_SIGNATURE_BYTES: Final = 1 << 18
"""The largest size of a file; larger ones are refused unread."""
UNREADABLE: Final = "E-DEVICE-UNREADABLE"
PARSE: Final = "E-DEVICE-PARSE"
VALUE: Final = "E-DEVICE-VALUE"
SOURCE: Final = "E-DEVICE-SOURCE"
DUPLICATE: Final = "E-DEVICE-DUPLICATE"
FACTS: Final = tuple(
    field.name
    for field in fields(DeviceSignature)
    if field.name not in {"id", "family", "architecture_generation", "device_name_contains", "sources"}
)
"""The facts that a file may state, each with its source."""
_FIX: Final = "compare the file with docs/device-signatures.md."
_HEADER: Final = re.compile(r"\s*\[\[\s*(generations(?:\.devices)?)\s*\]\]")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")
_AT_LINE: Final = re.compile(r"at line (\d+)")
Place = tuple[str, ...]
"""The place of a table: none at the top, ``generations`` with a number, and ``devices`` with another."""


class SignatureReading(NamedTuple):
    """The devices of a file, each before the whole generation to which it belongs, and what there is to say about it.

    A file about which there is something to say has no devices.
    """

    signatures: tuple[DeviceSignature, ...]
    diagnostics: tuple[Diagnostic, ...]


def signature_finding(code: str, message: str, fix: str, source: str, line: int = 1) -> Diagnostic:
    """Returns a diagnostic about a file of device signatures."""
    return Diagnostic(Severity.ERROR, code, message, fix, SourceLocation(source, line, None, UNSHOWN))


def read_signatures(data: bytes, source: str) -> SignatureReading:
    """Returns what a file holds; ``source`` names it in diagnostics.  Raises nothing."""
    if len(data) > MAX_SIGNATURE_BYTES:
        message, fix = f"the file has {len(data)} bytes", f"keep it within {MAX_SIGNATURE_BYTES} bytes."
        return SignatureReading((), (signature_finding(UNREADABLE, message, fix, source),))
    try:
        text = data.decode("utf-8")
        if is_toml_nested_beyond(text, MAX_DEPTH):
            message = f"arrays and inline tables are nested more than {MAX_DEPTH} deep"
            return SignatureReading((), (signature_finding(PARSE, message, "flatten the nesting.", source),))
        table = tomllib.loads(text)
    except ValueError as error:  # malformed UTF-8 and TOML, and numbers too long
        told = shown(str(error))
        line_told = _AT_LINE.search(told)
        line = 1 if line_told is None else int(line_told[1])
        message = f"the file is no TOML: {told}"
        return SignatureReading((), (signature_finding(PARSE, message, "write TOML 1.0 in UTF-8.", source, line),))
    reader = _Reader(source, _lines(text))
    signatures = tuple(reader.read(table))
    return SignatureReading(() if reader.diagnostics else signatures, tuple(reader.diagnostics))


def _lines(text: str) -> dict[tuple[Place, str], int]:
    """Returns the line of each table of the file, under an empty key, and of each key that begins a line."""
    lines: dict[tuple[Place, str], int] = {}
    generations = devices = -1
    place: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header is not None:
            if header[1] == "generations":
                generations, devices = generations + 1, -1
                place = ("generations", str(generations))
            else:
                devices += 1
                place = ("generations", str(generations), "devices", str(devices))
            lines[place, ""] = number
        elif line.lstrip().startswith("["):
            place = (line.strip().strip("[]").strip(),)
        elif (key := _KEY.match(line)) is not None:
            lines.setdefault((place, key[1]), number)
    return lines


class _Reader:
    def __init__(self, source: str, lines: Mapping[tuple[Place, str], int]) -> None:
        self._source, self._lines = source, lines
        self._sources: dict[str, str] = {}
        self.diagnostics: list[Diagnostic] = []

    def _add(self, code: str, message: str, fix: str, place: Place, key: str = "") -> None:
        around = (place, place[:2])  # a device has the facts of its generation, too
        lines = [self._lines.get((each, word)) for word in (key, "") for each in around]
        line = next(filter(None, lines), 1)
        self.diagnostics.append(signature_finding(code, message, fix, self._source, line))

    def read(self, table: dict[str, Any]) -> Iterator[DeviceSignature]:
        self._check_keys(table, {"family", "sources", "generations"}, ())
        family = self._text(table, "family", ())
        sources = table.get("sources", {})
        if not isinstance(sources, dict) or not all(
            isinstance(text, str) and text.strip() for text in sources.values()
        ):
            self._add(PARSE, "`sources` is no table of texts", _FIX, (), "sources")
            sources = {}
        self._sources = sources
        rows = self._tables(table, "generations", ())
        if not rows:
            self._add(PARSE, "the file has no `generations`", _FIX, ())
        seen: dict[str, str] = {}
        for number, row in enumerate(rows):
            place: Place = ("generations", str(number))
            self._check_keys(row, {"id", "compute_capability", "names", "devices", *FACTS}, place)
            identity = self._text(row, "id", place)
            if identity in seen:
                self._add(DUPLICATE, f"the id {shown(identity)} is given twice", "give each its own.", place, "id")
            seen[identity] = identity
            capability = row.get("compute_capability")
            if type(capability) is not int:
                self._add(VALUE, "`compute_capability` is no whole number", "write 90 for 9.0.", place)
                continue
            facts = self._facts(row, place)
            for index, device in enumerate(self._tables(row, "devices", place)):
                inner = (*place, "devices", str(index))
                self._check_keys(device, {"names", *FACTS}, inner)
                own = facts | self._facts(device, inner)
                yield from self._made(identity, family, capability, self._names(device, inner), own, inner)
            yield from self._made(identity, family, capability, self._names(row, place), facts, place)

    def _made(
        self,
        identity: str,
        family: str,
        capability: int,
        names: tuple[str, ...],
        facts: Mapping[str, tuple[Any, str]],
        place: Place,
    ) -> Iterator[DeviceSignature]:
        try:
            yield DeviceSignature(
                id=identity,
                family=family,
                architecture_generation=capability,
                device_name_contains=names,
                sources=tuple([(name, source) for name, (_, source) in facts.items()]),
                **{name: value for name, (value, _) in facts.items()},
            )
        except InvalidField as error:
            key = {"architecture_generation": "compute_capability"}.get(error.field, error.field)
            self._add(VALUE, f"`{key}`: {error.message}", error.fix, place, key)

    def _facts(self, row: dict[str, Any], place: Place) -> dict[str, tuple[Any, str]]:
        facts = {}
        for name in FACTS:
            if name not in row:
                continue
            fact = row[name]
            if not isinstance(fact, dict) or set(fact) != {"value", "source"}:
                self._add(PARSE, f"`{name}` is no fact", "write { value = ..., source = ... }.", place, name)
            elif not isinstance(fact["source"], str) or fact["source"] not in self._sources:
                fix = "name one of the keys of [sources]."
                self._add(
                    SOURCE, f"`{name}` has the source {shown(fact['source'])}, which the file lacks", fix, place, name
                )
            else:
                value = tuple(fact["value"]) if isinstance(fact["value"], list) else fact["value"]
                facts[name] = value, self._sources[fact["source"]]
        return facts

    def _names(self, row: dict[str, Any], place: Place) -> tuple[str, ...]:
        names = row.get("names", [])
        if not isinstance(names, list) or not names or not all(isinstance(each, str) and each for each in names):
            self._add(VALUE, "`names` is no list of parts of names", 'write names = ["H200"].', place, "names")
            return ()
        return tuple(names)

    def _tables(self, row: dict[str, Any], key: str, place: Place) -> list[dict[str, Any]]:
        tables = row.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            self._add(PARSE, f"`{key}` is no list of tables", _FIX, place, key)
            return []
        return tables

    def _text(self, row: dict[str, Any], key: str, place: Place) -> str:
        text = row.get(key)
        if not isinstance(text, str) or not text.strip():
            self._add(VALUE, f"`{key}` is missing or blank", "give it a name.", place, key)
            return "unknown"
        return text

    def _check_keys(self, row: dict[str, Any], known: set[str], place: Place) -> None:
        for key in row:
            if key not in known:
                self._add(PARSE, f"the key {shown(key)} is unknown", _FIX, place, key)
