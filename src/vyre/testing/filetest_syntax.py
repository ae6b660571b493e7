"""Reads and writes filetests: programs in ``.vyre`` text whose comments state their inputs and results.

::

    ; run: [input=value ...] [option=value ...] -> [output=value ...]
    ; run: ... -> error CODE ["part of the message"] [attribute=value ...]
    ; error: V010 [V045 ...]
    ; warning: V101 [...]
    ; check ptx: TEXT
    ; check-not ptx: TEXT

docs/filetests.md explains them; values are read by ``vyre.testing.filetest_values``, checks by ``filetest_checks``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import ErrorCode, InvalidConfig, MalformedText
from vyre.domain.frozen import frozen
from vyre.domain.ir.bits import bits_value
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.text_cursor import Cursor
from vyre.domain.ir.text_format import literal_text, name_text, quoted
from vyre.domain.ir.text_lexer import END, NAME, STRING, tokenize
from vyre.domain.ir.types import ScalarType
from vyre.domain.source_location import SourceLocation
from vyre.domain.specialization import SpecMap, resolve_spec, spec_constants
from vyre.testing.filetest_checks import Check, parse_checks
from vyre.testing.filetest_values import Room, summary_text, take_values, values_text

_DIRECTIVE: Final = re.compile(r'^((?:[^;"]++|"(?:[^"\\]++|\\.)*+")*+);\s*(run|error|warning)\s*:(.*)$')
_CONTINUED: Final = re.compile(r"^\s*;(.*)$")
_CODE: Final = re.compile(r"V\d{3}\Z")


@frozen
class ExpectedOutput:
    """The expected bytes, or the first hexadecimal digits of their BLAKE3 digest."""

    data: bytes | None = None
    digest: str | None = None


@frozen
class ExpectedError:
    """The expected error: its code, a part of the message, and attributes of the exception."""

    code: ErrorCode
    text: str = ""
    attributes: Mapping[str, object] = field(default_factory=dict)


@frozen
class Run:
    """One ``run`` directive; ``options`` are fields of ``DispatchConfig``."""

    line: int
    inputs: Mapping[str, bytes]
    options: Mapping[str, Any]
    expected: Mapping[str, ExpectedOutput] | ExpectedError

    def config(self, program: Program, **defaults: Any) -> DispatchConfig:
        """Returns the config of the run; ``defaults`` are used for fields that the directive does not set.

        Raises ``InvalidConfig``.
        """
        return DispatchConfig(**defaults | self.settings(program))

    def settings(self, program: Program) -> dict[str, Any]:
        """Returns the fields of ``DispatchConfig`` that the directive sets; raises ``InvalidConfig``."""
        spec = {"spec": resolve_spec(program, self.options["spec"])} if "spec" in self.options else {}
        return {**self.options, **spec}


@frozen
class ExpectedFinding:
    """A diagnostic code; ``line`` is None where the line does not matter."""

    severity: str
    code: str
    line: int | None


@frozen
class Filetest:
    """A parsed filetest.  ``program`` is None if the text does not parse; ``malformed`` is then the error."""

    filename: str
    program: Program | None
    malformed: MalformedText | None
    findings: tuple[ExpectedFinding, ...]
    runs: tuple[Run, ...]
    checks: tuple[Check, ...] = ()


def parse_filetest(text: str, filename: str) -> Filetest:
    """Returns the test in ``text``.

    Raises ``MalformedText`` for a directive that does not parse, for text without any, and for a program that does not
    parse unless ``; error: MALFORMED_TEXT`` expects it.
    """
    program: Program | None = None
    malformed: MalformedText | None = None
    try:
        program = Program.from_text(text, filename)
    except MalformedText as error:
        malformed = error
    findings: list[ExpectedFinding] = []
    runs: list[Run] = []
    room = Room()
    for directive in _directives(text):
        cursor = _cursor(directive, filename)
        if directive.kind != "run":
            findings += _findings(cursor, directive.kind, directive.line if directive.trails else None)
        elif program is not None:
            runs.append(_RunParser(cursor, program, room).parse(directive.line))
    if malformed is not None and not any(f.code == ErrorCode.MALFORMED_TEXT.name for f in findings):
        raise malformed
    checks = parse_checks(text, filename)
    if not runs and not findings and not checks:
        raise MalformedText(
            "the text has no directive", loc=SourceLocation(filename, 1, 1), fix="add `; run:` or `; error:`."
        )
    return Filetest(filename, program, malformed, tuple(findings), tuple(runs), checks)


class _Directive(NamedTuple):
    """A directive; ``text`` starts at ``column`` of ``line``; ``trails`` if code precedes it on the line."""

    kind: str
    line: int
    column: int
    text: str
    trails: bool


def _directives(text: str) -> Iterator[_Directive]:
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        match = _DIRECTIVE.match(line)
        if match is None:
            continue
        body, after = match[3].rstrip(), number
        while body.endswith("\\") and after < len(lines):
            more = _CONTINUED.match(lines[after])
            body = body[:-1] + (more[1].rstrip() if more else "")
            after += 1
        yield _Directive(match[2], number, match.start(3), body, bool(match[1].strip()))


def _cursor(directive: _Directive, filename: str) -> Cursor:
    return Cursor(tokenize(directive.text, filename, directive.line, directive.column + 1))


def _findings(cursor: Cursor, severity: str, line: int | None) -> list[ExpectedFinding]:
    findings: list[ExpectedFinding] = []
    while cursor.kind != END:
        code = cursor.take_name("a diagnostic code")
        if not _CODE.match(code) and code != ErrorCode.MALFORMED_TEXT.name:
            raise cursor.error(f"{code} is no diagnostic code", "write V010, or MALFORMED_TEXT.", cursor.position - 1)
        findings.append(ExpectedFinding(severity, code, line))
    if not findings:
        raise cursor.expected("a diagnostic code")
    return findings


# ---------------------------------------------------------------- run
def _one_number(cursor: Cursor) -> int:
    return cursor.take_integer("a number", (1 << 64) - 1)


def _shape(cursor: Cursor) -> tuple[int, ...]:
    sizes = [_one_number(cursor)]
    while cursor.accept(","):
        sizes.append(_one_number(cursor))
    return tuple(sizes)


def _dim3(cursor: Cursor) -> tuple[int, ...]:
    return (*_shape(cursor), 1, 1)[:3]


def _true(cursor: Cursor) -> bool:
    cursor.take("true")
    return True


_OPTIONS: Final[dict[str, tuple[str, Callable[[Cursor], object]]]] = {
    "grid": ("grid", _dim3),
    "extent": ("extent", _shape),
    "workgroup": ("workgroup", _dim3),
    "chunk": ("chunk_workgroups", _one_number),
    "step_budget": ("step_budget", _one_number),
    "fixpoint": ("fixpoint_iterations", _one_number),
    "max_output_bytes": ("max_output_bytes", _one_number),
    "race_check": ("race_check", _true),
}
_MAPPINGS: Final = ("spec", "count")


class _RunParser:
    """Parses the text after ``run:``."""

    def __init__(self, cursor: Cursor, program: Program, room: Room) -> None:
        self.cursor = cursor
        self.room = room
        self.program = program
        self.inputs: dict[str, bytes] = {}
        self.options: dict[str, Any] = {}

    def parse(self, line: int) -> Run:
        """Parses the directive at the cursor; raises ``MalformedText``."""
        cursor = self.cursor
        while not cursor.accept("-"):
            if cursor.kind not in (NAME, STRING):
                raise cursor.expected("an input, an option or `->`")
            self._binding()
        cursor.take(">")
        expected = self._error() if cursor.accept_word("error") else self._outputs()
        if cursor.kind != END:
            raise cursor.expected("the end of the directive")
        return Run(line, self.inputs, self.options, expected)

    def _binding(self) -> None:
        cursor = self.cursor
        is_word = cursor.kind == NAME
        name = cursor.take_name("a buffer or an option")
        if is_word and name in _MAPPINGS and cursor.accept("."):
            self._mapping(name)
        elif is_word and name in _OPTIONS:
            cursor.take("=")
            key, take = _OPTIONS[name]
            self.options[key] = take(cursor)
        else:
            buffer = self._buffer(name, "input", lambda b: b.takes_input)
            if name in self.inputs:
                raise cursor.error(f"`{name}` is given twice", position=cursor.position - 1)
            cursor.take("=")
            self.inputs[name] = take_values(cursor, self._element(buffer), self.room)

    def _mapping(self, kind: str) -> None:
        cursor = self.cursor
        name = cursor.take_name("a name")
        cursor.take("=")
        if kind == "count":
            self.options.setdefault("output_counts", {})[name] = _one_number(cursor)
            return
        default = spec_constants(self.program).get(name)
        dtype = default.dtype if default is not None else ScalarType.U32
        raw = take_values(cursor, dtype, self.room)
        self.options.setdefault("spec", {})[name] = bits_value(dtype, int.from_bytes(raw[: dtype.size], "little"))

    def _outputs(self) -> dict[str, ExpectedOutput]:
        cursor = self.cursor
        outputs: dict[str, ExpectedOutput] = {}
        while cursor.kind != END:
            name = cursor.take_name("an output")
            buffer = self._buffer(name, "output", lambda b: b.is_returned)
            cursor.take("=")
            if cursor.accept_word("blake3"):
                cursor.take("(")
                digest = cursor.take_string("the first digits of a digest").lower()
                if len(digest) < 8:
                    raise cursor.error("a digest of less than 8 digits", position=cursor.position - 1)
                outputs[name] = ExpectedOutput(digest=digest)
                cursor.take(")")
            else:
                outputs[name] = ExpectedOutput(take_values(cursor, self._element(buffer), self.room))
        return outputs

    def _error(self) -> ExpectedError:
        cursor = self.cursor
        name = cursor.take_name("the name of an error code")
        if name not in ErrorCode.__members__:
            raise cursor.error(f"{name} is no error code", f"use one of {', '.join(ErrorCode.__members__)}.")
        text = cursor.take_string("a part of the message") if cursor.kind == STRING else ""
        attributes: dict[str, object] = {}
        while cursor.kind != END:
            key = cursor.take_name("an attribute of the error")
            cursor.take("=")
            if cursor.kind == STRING:
                attributes[key] = cursor.take_string("a text")
            else:
                numbers = _shape(cursor)
                attributes[key] = numbers if len(numbers) > 1 else numbers[0]
        return ExpectedError(ErrorCode[name], text, attributes)

    def _buffer(self, name: str, role: str, fits: Callable[[Buffer], bool]) -> Buffer:
        buffer = self.program.buffers_by_name.get(name)
        if buffer is None or not fits(buffer):
            known = ", ".join(b.name for b in self.program.abi_buffers if fits(b)) or "none"
            raise self.cursor.error(
                f"`{name}` is no {role} and no option", f"the {role}s are {known}.", self.cursor.position - 1
            )
        return buffer

    def _element(self, buffer: Buffer) -> ScalarType:
        if not isinstance(buffer.element, ScalarType):
            raise self.cursor.error(f"`{buffer.name}` has elements of {buffer.element.text}")
        return buffer.element


# ---------------------------------------------------------------- writing
def filetest_text(
    program: Program,
    inputs: Mapping[str, bytes],
    config: DispatchConfig,
    expected: Mapping[str, bytes] | ExpectedError,
    *,
    note: str = "",
) -> str:
    """Returns a filetest of one run; raises ``InvalidConfig`` for a config that directives cannot express."""
    parts = ["; run:"]
    parts += [_bound(program, name, values_text(_element_of(program, name), data)) for name, data in inputs.items()]
    parts += _config_texts(config)
    parts.append("->")
    if isinstance(expected, ExpectedError):
        parts.append(_error_text(expected))
    else:
        parts += [
            _bound(program, name, summary_text(_element_of(program, name), data)) for name, data in expected.items()
        ]
    head = "".join(f"; {line}\n" for line in note.splitlines())
    return f"{head}{' '.join(parts)}\n{program.to_text()}"


def _element_of(program: Program, name: str) -> ScalarType:
    element = program.buffer(name).element
    if not isinstance(element, ScalarType):
        raise InvalidConfig(f"`{name}` has elements of {element.text}", fix="use a scalar type.")
    return element


def _bound(program: Program, name: str, value: str) -> str:
    plain = name not in _OPTIONS and name not in _MAPPINGS and name != "error"
    return f"{name_text(name) if plain else quoted(name)}={value}"


def _config_texts(config: DispatchConfig) -> list[str]:
    unset = DispatchConfig()
    texts: list[str] = []
    known = {key for key, _ in _OPTIONS.values()} | {"spec", "output_counts", "label"}
    for key in DispatchConfig.__dataclass_fields__:
        if key not in known and getattr(config, key) != getattr(unset, key):
            raise InvalidConfig(f"no directive sets {key}", fix="leave it out of the filetest.")
    for word, (key, _) in _OPTIONS.items():
        value = getattr(config, key)
        if value != getattr(unset, key):
            texts.append(f"{word}={_plain(value)}")
    texts += [f"spec.{name_text(name)}={_spec_text(config.spec, name)}" for name in config.spec or ()]
    texts += [f"count.{name_text(name)}={count}" for name, count in (config.output_counts or {}).items()]
    return texts


def _spec_text(spec: SpecMap | None, name: str) -> str:
    assert spec is not None
    value = spec[name].as_literal()
    return literal_text(value.dtype, value.bits)


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _error_text(expected: ExpectedError) -> str:
    parts = [f"error {expected.code.name}"]
    if expected.text:
        parts.append(quoted(expected.text))
    for key, value in expected.attributes.items():
        parts.append(f"{key}={quoted(value) if isinstance(value, str) else _plain(value)}")
    return " ".join(parts)
