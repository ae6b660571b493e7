"""Dialects in TOML manifests: whatever a file holds, reading it gives a dialect and diagnostics, and raises nothing.

docs/dialects.md has the schema and the codes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from vyre.domain.diagnostics import Diagnostic, OpLocation, Severity
from vyre.domain.dialects.laws.stated import stated_law
from vyre.domain.dialects.migration import Deprecation
from vyre.domain.dialects.operations import Category, Dialect, Lowering, Operation, Signature, TypedName
from vyre.domain.errors import InvalidDialect, MalformedText
from vyre.domain.ir.definitions import Definition, Version, is_operation_id
from vyre.domain.ir.program import Program
from vyre.domain.ir.text_format import name_text
from vyre.domain.ir.text_parser import parse_definition
from vyre.domain.ir.types import SCALAR_BY_TEXT, ScalarType
from vyre.domain.nesting import is_toml_nested_beyond
from vyre.domain.printable import shown
from vyre.domain.source_location import UNSHOWN, SourceLocation
from vyre.domain.strict_json import MAX_DEPTH
from vyre.domain.validation.validator import check_rules

MAX_MANIFEST_BYTES: Final = 1 << 20
"""The largest size of a manifest; larger files are refused unread."""
UNREADABLE: Final = "E-TOML-UNREADABLE"
PARSE: Final = "E-TOML-PARSE"
EMPTY_DIALECT: Final = "E-TOML-EMPTY-DIALECT"
EMPTY_VERSION: Final = "E-TOML-EMPTY-VERSION"
BAD_OP_ID: Final = "E-TOML-BAD-OP-ID"
BAD_CATEGORY: Final = "E-TOML-BAD-CATEGORY"
BAD_BODY: Final = "E-TOML-BAD-BODY"
BAD_NATIVE: Final = "E-TOML-BAD-NATIVE"
BAD_LAW: Final = "E-TOML-BAD-LAW"
UNCHECKED_LAW: Final = "N-TOML-LAW-UNCHECKED"
MAX_LAWS: Final = 256
"""The largest number of laws that a manifest states."""
DUPLICATE_OP: Final = "E-TOML-DUPLICATE-OP"
REJECTED: Final = "E-TOML-MANIFEST-REJECTED"
REFUSED: Final = "E-TOML-REFUSED-BY-GATE"
SHADOWED: Final = "N-TOML-DIALECT-SHADOWED"

_CATEGORIES: Final = {category.value: category for category in Category}
_KEYS: Final = {"dialect", "version", "description", "ops"}
_OP_KEYS: Final = {"id", "category", "summary", "inputs", "outputs", "laws", "body", "deprecated", "native"}


class Manifest(NamedTuple):
    """A manifest that was read: the file, its dialect, what its author says about it, and what is out of use."""

    source: str
    dialect: Dialect
    description: str
    deprecations: tuple[Deprecation, ...] = ()


class ManifestReading(NamedTuple):
    """The manifest of a file, None if it is unusable, and what there is to say about it."""

    manifest: Manifest | None
    diagnostics: tuple[Diagnostic, ...]


class _Defect(Exception):
    """A defect of the schema, which ends the reading."""


def read_manifest(data: bytes, source: str) -> ManifestReading:
    """Returns what a file holds; ``source`` names it in diagnostics.  Raises nothing."""
    reader = _Reader(source)
    manifest = reader.read(data)
    return ManifestReading(manifest, tuple(reader.diagnostics))


def finding(code: str, message: str, fix: str, source: str, operation: str | None = None) -> Diagnostic:
    """Returns a diagnostic about a file or directory of manifests."""
    severity = Severity.NOTE if code.startswith("N-") else Severity.ERROR
    location = None if operation is None else OpLocation(operation)
    return Diagnostic(severity, code, message, fix, SourceLocation(source, 1, None, UNSHOWN), location)


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self.diagnostics: list[Diagnostic] = []

    def _add(self, code: str, message: str, fix: str, operation: str | None = None) -> None:
        self.diagnostics.append(finding(code, message, fix, self._source, operation))

    def read(self, data: bytes) -> Manifest | None:
        if len(data) > MAX_MANIFEST_BYTES:
            self._add(UNREADABLE, f"the file has {len(data)} bytes", f"keep it within {MAX_MANIFEST_BYTES} bytes.")
            return None
        try:
            text = data.decode("utf-8")
            if is_toml_nested_beyond(text, MAX_DEPTH):
                self._add(
                    PARSE, f"arrays and inline tables are nested more than {MAX_DEPTH} deep", "flatten the nesting."
                )
                return None
            table = tomllib.loads(text)
        except ValueError as error:  # malformed UTF-8 and TOML, and numbers too long
            self._add(PARSE, f"the file is no TOML: {shown(str(error))}", "write TOML 1.0 in UTF-8.")
            return None
        try:
            return self._manifest(table)
        except _Defect as defect:
            self._add(PARSE, f"the file is no manifest: {defect}", "compare it with the schema in docs/dialects.md.")
            return None

    def _manifest(self, table: dict[str, Any]) -> Manifest | None:
        _check_keys(table, _KEYS, "the manifest")
        dialect = _text(table, "dialect", "the manifest").strip()
        version_text = _text(table, "version", "the manifest").strip()
        description = _text(table, "description", "the manifest", "")
        rows = table.get("ops", [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise _Defect("`ops` is no list of tables")
        if not dialect:
            self._add(EMPTY_DIALECT, "`dialect` is blank", "name the dialect, such as `acme`.")
        if not version_text:
            self._add(EMPTY_VERSION, "`version` is blank", 'give a version, such as "1.2.0".')
        if not dialect or not version_text:
            return None
        try:
            version = Version.of(version_text)
        except ValueError as error:
            raise _Defect(str(error)) from None
        if not is_operation_id(f"{dialect}.x"):
            raise _Defect(f"{shown(dialect)} is no id of a dialect: use identifiers joined by dots")
        operations = self._operations(rows, dialect, version)
        if operations is None:
            self._add(REJECTED, f"the manifest of `{dialect}` is not used", "repair the operations that are reported.")
            return None
        notes = [(row["id"], _text(row, "deprecated", f"`{row['id']}`")) for row in rows if "deprecated" in row]
        deprecations = tuple([Deprecation(name, version, note) for name, note in notes])
        return Manifest(self._source, Dialect(dialect, version, operations), description, deprecations)

    def _operations(self, rows: list[dict[str, Any]], dialect: str, version: Version) -> tuple[Operation, ...] | None:
        """Returns the operations in order, or None if one of them was reported."""
        operations: dict[str, Operation] = {}
        stated = 0
        for number, row in enumerate(rows):
            where = f"`ops[{number}]`"
            _check_keys(row, _OP_KEYS, where)
            name, category = _text(row, "id", where), _text(row, "category", where)
            if not name.startswith(f"{dialect}.") or not is_operation_id(name):
                fix = f"call it `{dialect}.` and identifiers joined by dots."
                self._add(BAD_OP_ID, f"{where} has the id {shown(name)}", fix)
                continue
            if category not in _CATEGORIES:
                self._add(BAD_CATEGORY, f"`{name}` has the category {shown(category)}", "use A, B or C.", name)
                continue
            if name in operations:
                self._add(DUPLICATE_OP, f"`{name}` is given twice", "give every operation its own id.", name)
                continue
            signature = Signature(_operands(row, "inputs", where), _result(row, where))
            body = _text(row, "body", where, "")
            definition = self._definition(name, version, signature, body, operations) if body else None
            if body and definition is None:
                continue
            laws = _texts(row, "laws", where)
            stated += len(laws)
            if stated > MAX_LAWS:
                raise _Defect(f"it states more than {MAX_LAWS} laws")
            self._check_laws(name, laws, definition, operations)
            operations[name] = Operation(
                id=name,
                signature=signature,
                category=_CATEGORIES[category],
                definition=definition,
                law_texts=laws,
                lowerings=self._native(row, name, definition),
                summary=_text(row, "summary", where, ""),
            )
        is_wrong = any(each.severity is Severity.ERROR for each in self.diagnostics)
        return None if is_wrong else tuple(operations.values())

    def _native(self, row: dict[str, Any], name: str, definition: Definition | None) -> dict[str, Lowering]:
        """Returns the lowerings to native text by their backends; adds a diagnostic for each text that is bad."""
        lowerings: dict[str, Lowering] = {}
        for table in row.get("native", []):
            if not isinstance(table, dict) or set(table) != {"backends", "language", "text"} or definition is None:
                raise _Defect(f"`native` of {name} is no list of backends, language and text beside a body")
            language, text = (_text(table, key, f"`native` of {name}") for key in ("language", "text"))
            try:
                lowering = Lowering.native(definition, language, text)
            except InvalidDialect as error:
                self._add(BAD_NATIVE, error.message, error.fix, name)
            else:
                lowerings |= dict.fromkeys(_texts(table, "backends", f"`native` of {name}"), lowering)
        return lowerings

    def _check_laws(
        self, name: str, laws: Sequence[str], definition: Definition | None, known: Mapping[str, Operation]
    ) -> None:
        """Adds a diagnostic for each law of an operation that is malformed, or that nothing can check."""
        definitions = [each.definition for each in known.values() if each.definition is not None]
        undefined = {each.id for each in known.values() if each.definition is None}
        if definition is None:
            undefined.add(name)
        else:
            definitions.append(definition)
        for number, text in enumerate(laws, 1):
            try:
                law = stated_law(text, name, number, definitions, undefined)
            except MalformedText as error:
                self._add(BAD_LAW, error.message, error.fix, name)
                continue
            if law.unchecked:
                fix = "nothing uses the law; state laws of operations whose bodies have branches at most."
                self._add(UNCHECKED_LAW, f"law {text} cannot be checked: {law.unchecked}", fix, name)

    def _definition(
        self, name: str, version: Version, signature: Signature, body: str, known: dict[str, Operation]
    ) -> Definition | None:
        parts = (*signature.inputs, signature.result)
        types = [next(iter(part.types)).text for part in parts]
        parameters = ", ".join(
            f"{name_text(part.name)}: {text}{' const' * part.is_attribute}"
            for part, text in zip(signature.inputs, types, strict=False)
        )
        head = f"define {name} version {version} ({parameters}) -> {types[-1]} {{"
        try:
            definition = parse_definition(f"{head}\n{body}\n}}", f"{self._source}: body of {name}", 0)
        except MalformedText as error:
            self._add(BAD_BODY, error.message, error.fix, name)
            return None
        earlier = [each.definition for each in known.values() if each.definition is not None]
        report = check_rules(Program((), (1, 1, 1), (), definitions=(*earlier, definition)))
        for problem in report.errors:
            self._add(BAD_BODY, f"[{problem.code}] {problem.message}", problem.fix or "repair the body.", name)
        return definition if report.ok else None


def _check_keys(table: dict[str, Any], known: set[str], where: str) -> None:
    unknown = [key for key in table if key not in known]
    if unknown:
        raise _Defect(f"{where} has the unknown key {shown(unknown[0])}")


def _text(table: dict[str, Any], key: str, where: str, default: str | None = None) -> str:
    text = table.get(key, default)
    if not isinstance(text, str):
        raise _Defect(f"`{key}` of {where} is missing" if text is None else f"`{key}` of {where} is no text")
    return text


def _texts(table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    texts = table.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise _Defect(f"`{key}` of {where} is no list of texts")
    return tuple(texts)


def _operands(row: dict[str, Any], key: str, where: str) -> tuple[TypedName, ...]:
    operands = row.get(key, [])
    if not isinstance(operands, list):
        raise _Defect(f"`{key}` of {where} is no list")
    return tuple([_operand(each, f"`{key}` of {where}") for each in operands])


def _operand(entry: object, where: str) -> TypedName:
    is_right = isinstance(entry, list) and len(entry) >= 2 and entry[2:] in ([], ["const"])
    if not isinstance(entry, list) or not is_right or not all(isinstance(each, str) for each in entry):
        raise _Defect(f'{where} has an entry that is no [name, type] or [name, type, "const"]')
    name, text, *attribute = entry
    dtype: ScalarType | None = SCALAR_BY_TEXT.get(text)
    if dtype is None or not dtype.is_executable:
        raise _Defect(f"{where} has the type {shown(text)}, which no value of a program has")
    return TypedName(name, frozenset({dtype}), bool(attribute))


def _result(row: dict[str, Any], where: str) -> TypedName:
    outputs = _operands(row, "outputs", where)
    if len(outputs) != 1:
        raise _Defect(f"{where} has {len(outputs)} outputs, and an operation has one")
    return outputs[0]
