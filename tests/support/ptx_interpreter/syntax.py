"""The text of a PTX module as entries with variables and instructions (PTX ISA, chapters 4, 5, 10 and 11)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class PtxError(Exception):
    """A text that the engine does not understand, or a launch that breaks a rule of the manual."""


class Variable(NamedTuple):
    """A declared variable: ``nbytes`` bytes aligned to ``align``, at ``offset`` of its state space.

    ``data`` holds the initial bytes of a variable at module scope.
    """

    name: str
    offset: int
    nbytes: int
    align: int
    data: bytes = b""


class Instruction(NamedTuple):
    """One instruction.  ``guard`` is the name of its predicate, ``negated`` for the form ``@!p``."""

    opcode: str
    operands: tuple[str, ...]
    guard: str | None = None
    negated: bool = False

    def __str__(self) -> str:
        guard = "" if self.guard is None else f"@{'!' * self.negated}{self.guard} "
        return f"{guard}{self.opcode} {', '.join(self.operands)};"


class Entry(NamedTuple):
    """A kernel.  ``labels`` maps to positions in ``body``, ``tables`` the labels of ``.branchtargets`` to their labels.

    ``registers`` maps every register to its type.
    """

    name: str
    block: tuple[int, int, int]
    parameters: dict[str, Variable]
    registers: dict[str, str]
    shared: dict[str, Variable]
    local: dict[str, Variable]
    body: tuple[Instruction, ...]
    labels: dict[str, int]
    tables: dict[str, tuple[str, ...]]


class Module(NamedTuple):
    """The entries of a text by name, its constants in global memory, and its dynamic shared variable, if any."""

    entries: dict[str, Entry]
    constants: dict[str, Variable]


WIDTHS: Final = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8,
}  # fmt: skip
"""The size in bytes of every fundamental type."""

_VARIABLE: Final = re.compile(
    r"(?:\.extern\s+)?\.(?P<space>param|shared|local|global)\s+(?:\.align\s+(?P<align>\d+)\s+)?"
    r"\.(?P<type>\w+)\s+(?P<name>[\w$]+)(?P<array>\[(?P<count>\d*)\])?(?:\s*=\s*\{(?P<data>[^}]*)\})?"
)
_REGISTERS: Final = re.compile(r"\.reg\s+\.(\w+)\s+(%\w+)<(\d+)>")
_ENTRY: Final = re.compile(
    r"\.visible\s+\.entry\s+(?P<name>[\w$]+)\s*\((?P<parameters>[^)]*)\)\s*"
    r"\.reqntid\s+(?P<x>\d+)\s*,\s*(?P<y>\d+)\s*,\s*(?P<z>\d+)\s*\{"
)
_FOR_DEBUGGERS: Final = re.compile(r"^\s*\.(?:file|loc)\b[^\n]*", re.MULTILINE)
"""Lines that name those of the user's source."""
_LABEL: Final = re.compile(r"([$\w]+)\s*:\s*")
_GUARD: Final = re.compile(r"@(!?)(%\w+)\s+")
_HEADER: Final = re.compile(r"\.version\s+\d+\.\d+\s+\.target\s+sm_\w+\s+\.address_size\s+64\s")


def read_module(text: str) -> Module:
    """Returns a module; raises ``PtxError`` for a directive or a declaration that is not known."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL).strip()
    text = _FOR_DEBUGGERS.sub("", text)
    header = _HEADER.match(text)
    if header is None:
        raise PtxError(f"no header of a module: {text[:60]!r}")
    constants: dict[str, Variable] = {}
    dynamic: dict[str, Variable] = {}
    entries: dict[str, Entry] = {}
    rest = text[header.end() :].strip()
    while rest:
        start = _ENTRY.match(rest)
        if start is None:
            declaration, _, rest = rest.partition(";")
            space, variable = _variable(declaration.strip())
            if space not in ("global", "shared"):
                raise PtxError(f"not expected at module scope: {declaration!r}")
            (constants if space == "global" else dynamic)[variable.name] = variable
        else:
            end = _closing(rest, start.end())
            entries[start["name"]] = _entry(start, rest[start.end() : end], dynamic)
            rest = rest[end + 1 :]
        rest = rest.strip()
    return Module(entries, constants)


def _closing(text: str, start: int) -> int:
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.start()
    raise PtxError("a body without an end")


def _variable(declaration: str) -> tuple[str, Variable]:
    found = _VARIABLE.fullmatch(declaration)
    if found is None or found["type"] not in WIDTHS:
        raise PtxError(f"unknown declaration: {declaration!r}")
    width = WIDTHS[found["type"]]
    nbytes = width * (int(found["count"] or 0) if found["array"] else 1)
    data = b"".join(int(word, 0).to_bytes(width, "little") for word in (found["data"] or "").split(",") if word)
    return found["space"], Variable(found["name"], 0, nbytes, int(found["align"] or width), data.ljust(nbytes, b"\0"))


def _placed(variables: dict[str, Variable], variable: Variable) -> None:
    """Adds a variable behind those that are there, naturally aligned."""
    end = max((v.offset + v.nbytes for v in variables.values()), default=0)
    variables[variable.name] = variable._replace(offset=-(-end // variable.align) * variable.align)


def _entry(start: re.Match[str], body: str, dynamic: dict[str, Variable]) -> Entry:
    parameters: dict[str, Variable] = {}
    for declaration in filter(None, map(str.strip, start["parameters"].split(","))):
        _placed(parameters, _variable(declaration)[1])
    registers: dict[str, str] = {}
    spaces: dict[str, dict[str, Variable]] = {"shared": dict(dynamic), "local": {}}
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    tables: dict[str, tuple[str, ...]] = {}
    for statement in map(str.strip, body.split(";")):
        label = None
        while found := _LABEL.match(statement):
            label, statement = found[1], statement[found.end() :]
            labels[label] = len(instructions)
        declared = _REGISTERS.fullmatch(statement)
        if declared and declared[1] in WIDTHS:
            registers |= {f"{declared[2]}{k}": declared[1] for k in range(int(declared[3]))}
        elif statement.startswith(".branchtargets"):
            if label is None:
                raise PtxError(f"a list of targets without a label: {statement}")
            tables[label] = tuple(name.strip() for name in statement.removeprefix(".branchtargets").split(","))
        elif statement.startswith("."):
            space, variable = _variable(statement)
            if space not in spaces:
                raise PtxError(f"not expected in a body: {statement!r}")
            _placed(spaces[space], variable)
        elif statement:
            instructions.append(_instruction(statement))
    return Entry(
        start["name"],
        (int(start["x"]), int(start["y"]), int(start["z"])),
        parameters,
        registers,
        spaces["shared"],
        spaces["local"],
        tuple(instructions),
        labels,
        tables,
    )


def _instruction(statement: str) -> Instruction:
    guard = _GUARD.match(statement)
    opcode, _, operands = statement[guard.end() if guard else 0 :].partition(" ")
    split = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", operands)
    return Instruction(opcode, tuple(split), guard[2] if guard else None, bool(guard and guard[1]))
