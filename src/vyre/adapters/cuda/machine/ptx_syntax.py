"""PTX text as records: one pass, without semantics.

Statements end in ``;`` regardless of line breaks; comments, ``.loc``, ``.file`` and ``.pragma`` are dropped.  Scopes
inside a body are flattened, so a name is declared once per entry.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.cuda.machine.faults import PtxError
from vyre.domain.names import Dim3


class RegisterName(str):
    """``%r1``, or a special register such as ``%tid.x``."""

    __slots__ = ()


class Negated(str):
    """``!%p1``: the negation of a predicate."""

    __slots__ = ()

    @property
    def positive(self) -> Operand:
        """Returns the predicate without the negation."""
        return operand(self[1:])


class Pair(str):
    """``%p1|%p2``: two results."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Operand, Operand]:
        """Returns the two operands."""
        first, _, second = self.partition("|")
        return operand(first), operand(second)


class Elements(str):
    """``{%r1, %r2}``: registers that form the elements of a vector, or the parts of a word."""

    __slots__ = ()

    @property
    def members(self) -> tuple[Operand, ...]:
        """Returns the operands between the braces."""
        return tuple(operand(name.strip()) for name in self.strip("{}").split(","))


class Memory(str):
    """``[%rd1+8]``: an address."""

    __slots__ = ()


class Word(str):
    """Any other operand: a constant, a label, the name of a variable, or the sink ``_``."""

    __slots__ = ()


Operand: TypeAlias = RegisterName | Negated | Pair | Elements | Memory | Word
_KINDS: Final[dict[str, Callable[[str], Operand]]] = {"%": RegisterName, "!": Negated, "{": Elements, "[": Memory}


@lru_cache(maxsize=4096)
def operand(text: str) -> Operand:
    """Returns a written operand as its kind: ``%r1`` as ``RegisterName``, ``[%rd1+8]`` as ``Memory``.

    Results are cached, because the same few registers occur again and again.
    """
    if "|" in text:
        return Pair(text)
    return _KINDS.get(text[:1], Word)(text)


class Instruction(NamedTuple):
    """``guard`` is the predicate register of ``@p``; ``line`` is 1-based."""

    line: int
    opcode: str
    operands: tuple[Operand, ...]
    guard: RegisterName | None
    negated: bool

    def __str__(self) -> str:
        guard = f"@{'!' if self.negated else ''}{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip() + ";"


class Variable(NamedTuple):
    """A variable of a state space (``global``, ``const``, ``shared``, ``local``) or a parameter.

    ``length`` is the number of elements: 1 for a scalar, None for the open array of dynamic shared memory.
    """

    line: int
    space: str
    name: str
    type: str
    align: int
    length: int | None
    values: tuple[int, ...] = ()


class EntryText(NamedTuple):
    """A kernel.

    ``labels`` maps a label to the index of the instruction that follows; ``registers`` maps a name to the declared
    type; ``variables`` are those of its body, shared and local; ``tables`` maps the label of a ``.branchtargets`` list
    to its labels.
    """

    line: int
    name: str
    parameters: tuple[Variable, ...]
    required_block: Dim3 | None
    registers: dict[str, str]
    variables: list[Variable]
    instructions: list[Instruction]
    labels: dict[str, int]
    tables: dict[str, tuple[str, ...]]


class ModuleText(NamedTuple):
    """A module: ``version`` as (major, minor), the target, the variables outside entries, and the entries."""

    version: tuple[int, int]
    target: str
    variables: list[Variable]
    entries: list[EntryText]


SIZE_OF: Final = {
    **{f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64)},
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
}
"""The bytes of each type except ``pred``."""

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_STATEMENT: Final = re.compile(
    r"""\s*(?:
      (?P<label>[A-Za-z_$%][\w$]*)\s*:(?!:)
    | (?P<brace>[{}])
    | (?P<directive>\.\w+)
    | (?:@(?P<negated>!?)\s*(?P<guard>%[\w$]+)\s+)?(?P<opcode>[a-z][\w.:]*+)(?P<operands>[^;]*+);
    )""",
    re.X,
)
_OPERAND: Final = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|[^,\s\[\]{}]+")
_ENTRY: Final = re.compile(r"(?:\.(?:visible|weak|extern)\s+)*\.entry\s+([\w$%]++)\s*+(?:\(([^)]*+)\))?([^{;]*+)\{")
_VARIABLE: Final = re.compile(
    r"""(?:\.(?:visible|weak|extern)\s+)*\.(?P<space>global|const|shared|local|param)\s+
    (?:\.align\s+(?P<align>\d{1,9})\s+)?\.(?P<type>\w+)\s+
    (?:\.ptr\s*(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?
    (?P<name>[\w$%]+)\s*(?P<array>\[\s*(?P<count>\w*)\s*\])?\s*(?:=\s*(?P<values>.*))?\s*\Z""",
    re.X | re.S,
)
_TABLE: Final = re.compile(r"\s*\.branchtargets\s+([^;]+);")
_BLOCK: Final = re.compile(r"\s*(\d{1,4})\s*(?:,\s*(\d{1,4})\s*)?(?:,\s*(\d{1,4})\s*)?\Z")
_REGISTER: Final = re.compile(r"(%[\w$]+)(?:<(\d{1,9})>)?\Z")
_HEADER: Final = {
    ".version": re.compile(r"\.version\s+(\d{1,3})\.(\d{1,3})\b"),
    ".target": re.compile(r"\.target\s+([^\n]+)"),
    ".address_size": re.compile(r"\.address_size\s+(\d+)"),
}
_CONDITION_FUNCTION: Final = re.compile(
    r"\.extern\s+\.func\s+cudaGraphSetConditional\s*\(\s*\.param\s+\.b64\s+\w+\s*,\s*\.param\s+\.b32\s+\w+\s*\)\s*;"
)
_CONDITION_CALL: Final = ("cudaGraphSetConditional", 2)
"""The one function that a kernel may call, and the number of its arguments: a condition, and its new value."""
_IGNORED_LINES: Final = frozenset({".loc", ".file"})
_DECLARED_TYPES: Final = frozenset(SIZE_OF) | {"pred"}
_MOST_REGISTERS: Final = 1 << 19
"""The most registers of one entry."""
_MOST_THREADS: Final = 1024


def parse(text: str) -> ModuleText:
    """Returns the records of a module.  Raises ``PtxError``."""
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        # Comments turn into as many newlines as they had, so that lines keep their numbers.
        self._text = _COMMENT.sub(lambda match: "\n" * match.group().count("\n") or " ", text)
        self._newlines = [match.start() for match in re.finditer("\n", self._text)]
        self._position = 0
        self._sets_conditions = False

    def _line(self, position: int) -> int:
        return bisect_right(self._newlines, position) + 1

    def _error(self, message: str, position: int | None = None) -> PtxError:
        return PtxError(self._line(self._position if position is None else position), message)

    def module(self) -> ModuleText:
        """Parses the whole text."""
        version: tuple[int, int] | None = None
        target = ""
        variables: list[Variable] = []
        entries: list[EntryText] = []
        text = self._text
        while True:
            start = self._skip_space()
            if start == len(text):
                break
            match = _STATEMENT.match(text, start)
            directive = match and match["directive"]
            if not directive:
                raise self._error("expected a directive", start)
            if directive in _HEADER:
                header = _HEADER[directive].match(text, start)
                if header is None:
                    raise self._error(f"malformed {directive}", start)
                self._position = header.end()
                if directive == ".version":
                    version = int(header[1]), int(header[2])
                elif directive == ".target":
                    target = header[1].split(",")[0].strip()
                elif header[1] != "64":
                    raise self._error(f"address size {header[1]}: only 64 runs here", start)
            elif not self._skip_ignored(directive, start):
                entry = _ENTRY.match(text, start)
                function = _CONDITION_FUNCTION.match(text, start)
                if function:
                    self._position = function.end()
                    self._sets_conditions = True
                elif entry:
                    self._position = entry.end()
                    entries.append(self._entry(entry, start))
                else:
                    variables.append(self._variable(self._until_semicolon(start), start))
        if version is None or not target:
            raise PtxError(1, "no .version or no .target")
        return ModuleText(version, target, variables, entries)

    def _skip_space(self) -> int:
        text, position = self._text, self._position
        while position < len(text) and text[position].isspace():
            position += 1
        self._position = position
        return position

    def _skip_ignored(self, directive: str, start: int) -> bool:
        if directive in _IGNORED_LINES:
            end = self._text.find("\n", start)
            self._position = len(self._text) if end < 0 else end
            return True
        if directive == ".pragma":
            self._until_semicolon(start)
            return True
        return False

    def _until_semicolon(self, start: int) -> str:
        end = self._text.find(";", start)
        if end < 0:
            raise self._error("no ';' ends this", start)
        self._position = end + 1
        return self._text[start:end]

    def _variable(self, declaration: str, start: int) -> Variable:
        declaration = " ".join(declaration.split())
        match = _VARIABLE.match(declaration)
        if match is None:
            raise self._error(f"unknown declaration: {declaration[:80]}", start)
        kind = match["type"]
        if kind not in SIZE_OF:
            raise self._error(f"unknown type .{kind}", start)
        try:
            count = int(match["count"], 0) if match["count"] else None if match["array"] else 1
            values = tuple(
                int(value, 0) for value in (match["values"] or "").strip(" \n{}").split(",") if value.strip()
            )
        except ValueError:
            raise self._error(f"malformed number in the declaration of {match['name']}", start) from None
        align = int(match["align"] or SIZE_OF[kind])
        if align < 1 or align & (align - 1):
            raise self._error(f"an alignment of {align}", start)
        return Variable(self._line(start), match["space"], match["name"], kind, align, count, values)

    def _entry(self, match: re.Match[str], start: int) -> EntryText:
        name, parameters, attributes = match.groups()
        declared = [self._variable(one, start) for one in (parameters or "").split(",") if one.strip()]
        block: Dim3 | None = None
        for attribute, value in re.findall(r"\.(\w+)\s*([\d,\s]*)", attributes):
            if attribute == "reqntid":
                sizes = _BLOCK.match(value)
                x, y, z = map(int, sizes.groups("1")) if sizes else (0, 0, 0)
                if not 1 <= x * y * z <= _MOST_THREADS:
                    raise self._error(f"{name} requires blocks of {value[:40].strip()} threads", start)
                block = x, y, z
            elif attribute not in ("minnctapersm", "maxnctapersm", "maxntid", "maxnreg"):
                raise self._error(f"unknown attribute .{attribute} of {name}", start)
        entry = EntryText(self._line(start), name, tuple(declared), block, {}, [], [], {}, {})
        self._body(entry)
        return entry

    def _body(self, entry: EntryText) -> None:
        """Parses all statements up to the brace that closes the entry."""
        text, instructions, labels = self._text, entry.instructions, entry.labels
        match_statement, split_operands, line_of = _STATEMENT.match, _OPERAND.findall, self._line
        position, depth = self._position, 1
        while depth:
            match = match_statement(text, position)
            if match is None:
                self._position = position
                start = self._skip_space()
                raise self._error("the body has no end" if start == len(text) else "malformed statement", start)
            position = match.end()
            kind = match.lastgroup
            if kind == "operands":
                _, _, _, negated, guard, opcode, operands = match.groups()
                parts = tuple(map(operand, split_operands(operands))) if operands else ()
                line = line_of(match.start("opcode"))
                name = None if guard is None else RegisterName(guard)
                parsed = Instruction(line, opcode, parts, name, negated == "!")
                instructions.append(self._call_part(parsed) if opcode.startswith(("call", "st.param")) else parsed)
            elif kind == "label":
                label = match["label"]
                if label in labels or label in entry.tables:
                    raise self._error(f"label {label} is defined twice", match.start("label"))
                table = _TABLE.match(text, position)
                if table is None:
                    labels[label] = len(instructions)
                else:
                    entry.tables[label] = tuple(name.strip() for name in table[1].split(","))
                    position = table.end()
            elif kind == "brace":
                depth += 1 if match["brace"] == "{" else -1
            else:
                start = match.start("directive")
                self._position = position
                self._declaration(entry, match["directive"], start)
                position = self._position
        self._position = position

    def _call_part(self, call: Instruction) -> Instruction:
        """Returns what stands for a part of a call: an argument is a register, and the call stores to the condition.

        A condition's handle is its address here.
        """
        if call.opcode.startswith("st.param.") and len(call.operands) == 2:
            place, value = call.operands
            register = RegisterName(f"%param_{place.strip('[]').strip()}")
            return call._replace(opcode=f"mov{call.opcode.removeprefix('st.param')}", operands=(register, value))
        name, *arguments = [part.strip("()") for part in call.operands] or [""]
        if call.opcode not in ("call", "call.uni") or (name, len(arguments)) != _CONDITION_CALL:
            raise PtxError(call.line, f"unknown call: {call}")
        if not self._sets_conditions:
            raise PtxError(call.line, f"{name} is not declared")
        condition, setting = (f"%param_{argument}" for argument in arguments)
        return call._replace(opcode="st.global.b32", operands=(Memory(f"[{condition}]"), RegisterName(setting)))

    def _declaration(self, entry: EntryText, directive: str, start: int) -> None:
        if self._skip_ignored(directive, start):
            return
        if directive == ".param":
            argument = self._variable(self._until_semicolon(start), start)
            if f"%param_{argument.name}" in entry.registers:
                raise self._error(f"{argument.name} is declared twice", start)
            entry.registers[f"%param_{argument.name}"] = argument.type
        elif directive == ".reg":
            self._registers(entry, self._until_semicolon(start), start)
        elif directive in (".shared", ".local"):
            entry.variables.append(self._variable(self._until_semicolon(start), start))
        else:
            raise self._error(f"unknown directive {directive} in a body", start)

    def _registers(self, entry: EntryText, declaration: str, start: int) -> None:
        kind, *names = declaration.replace(",", " ").split()[1:] or [""]
        kind = kind.removeprefix(".")
        if kind not in _DECLARED_TYPES:
            raise self._error(f"unknown register type .{kind}", start)
        for name in names:
            match = _REGISTER.match(name)
            if match is None:
                raise self._error(f"malformed register {name}", start)
            stem, count = match.groups()
            if len(entry.registers) + int(count or 1) > _MOST_REGISTERS:
                raise self._error(f"more than {_MOST_REGISTERS} registers", start)
            wanted = [stem] if count is None else [f"{stem}{number}" for number in range(int(count))]
            again = next((one for one in wanted if one in entry.registers), None)
            if again is not None:
                raise self._error(f"register {again} is declared twice", start)
            entry.registers.update(dict.fromkeys(wanted, kind))
