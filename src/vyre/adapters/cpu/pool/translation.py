"""Translates the runtime's program, whose language ``words`` describes, to LLVM text.

Variables are stack slots, which LLVM puts into registers.  What a type checker of Python cannot see is checked here,
the signs and widths of numbers.  LLVM's verifier checks the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple, NoReturn

from vyre.adapters.cpu.pool import jobs, machine, serving, step_rows, threads, work
from vyre.adapters.cpu.pool.machine import FUTEX_NUMBER, MONOTONIC, Target
from vyre.adapters.cpu.pool.words import Record
from vyre.domain.errors import UnsupportedFeature

_LLVM: Final = {"i32": "i32", "u32": "i32", "i64": "i64", "u64": "i64", "bool": "i1", "None": "void"}
_BYTES: Final = {"i1": 1, "i32": 4, "i64": 8, "ptr": 8}
_OPERATIONS: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.FloorDiv: "udiv",
    ast.Mod: "urem",
    ast.RShift: "lshr",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
_CONVERSIONS: Final = {
    ("i32", "i64"): "zext",
    ("i1", "i64"): "zext",
    ("i64", "i32"): "trunc",
    ("ptr", "i64"): "ptrtoint",
}
_KERNEL: Final = ["Frame", "u64", "u64", "Memory"]
"""The types of the parameters of a kernel."""
_CONSTANT: Final = "constant"
"""The type of a number that has that of the other operand, or of the word to which it is assigned."""
_UNKNOWN: Final = object()


class Value(NamedTuple):
    """A value, or the address of a ``word`` that has one, with its type in the program."""

    type: str
    text: str
    word: bool = False

    def __str__(self) -> str:
        return f"{_llvm(self.type)} {self.text}"


NOTHING: Final = Value("None", "")


class Function(NamedTuple):
    """A function of the program, with the names that its module knows."""

    node: ast.FunctionDef
    names: Mapping[str, Any]
    symbol: str
    parameters: list[Value]
    result: str
    is_declared: bool


def translate(modules: Iterable[ModuleType], known: Mapping[str, object]) -> str:
    """Returns one LLVM module with the functions of some modules; ``known`` replaces values that these define.

    Raises ``SyntaxError`` for what the language does not have.
    """
    program: dict[str, Function] = {}
    for module in modules:
        path = Path(str(module.__file__))
        for node in ast.parse(path.read_text(encoding="utf-8"), path.name).body:
            if isinstance(node, ast.FunctionDef):
                program[node.name] = _function(node, {**vars(module), **known})
    declared: dict[str, str] = {}
    texts = [_Writer(each, program, declared).text() for each in program.values() if not each.is_declared]
    return "\n\n".join(("\n".join(declared.values()), *texts)) + "\n"


def _function(node: ast.FunctionDef, names: Mapping[str, Any]) -> Function:
    parameters = [Value(ast.unparse(a.annotation), f"%{a.arg}") for a in node.args.args if a.annotation]
    is_declared, name = ast.unparse(node.body[-1]) == "...", node.name
    symbol = f"@vyre_{name}" if not is_declared else f"@{name.replace('_', '.') if name.startswith('llvm') else name}"
    return Function(node, names, symbol, parameters, ast.unparse(node.returns or ast.Constant(None)), is_declared)


def _llvm(type: str) -> str:
    return _LLVM.get(type, type if type.startswith("<") else "ptr")


def _inner(type: str) -> str:
    return type.partition("[")[2][:-1]


class _Writer:
    """Writes one function."""

    def __init__(self, function: Function, program: Mapping[str, Function], declared: dict[str, str]) -> None:
        self._function, self._program, self._declared = function, program, declared
        self._names = dict(function.names)
        self._variables = {value.text[1:]: value for value in function.parameters}
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._loop: tuple[str, str] | None = None
        self._ended = False

    def text(self) -> str:
        """Returns the definition."""
        node, symbol, result = self._function.node, self._function.symbol, self._function.result
        self._run(node.body)
        self._line("ret void" if result == "None" else "unreachable")
        scope = "" if node.name.startswith("pool") else "internal "
        mark = " alwaysinline" if any(ast.unparse(each) == "inline" for each in node.decorator_list) else ""
        parameters = ", ".join(map(str, self._function.parameters))
        head = f"define {scope}{_llvm(result)} {symbol}({parameters}) nounwind{mark} {{"
        return "\n".join((head, "begin.0:", *self._slots, *self._lines, "}"))

    # ------------------------------------------------------------ lines
    def _fail(self, node: ast.AST, problem: str) -> NoReturn:
        line = getattr(node, "lineno", 0)
        raise SyntaxError(f"{self._names['__name__']}, line {line}: {problem}: {ast.unparse(node)}")

    def _fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}.{self._count}"

    def _line(self, text: str, *, ends: bool = False) -> None:
        if not self._ended:
            self._lines.append(f"  {text}")
        self._ended |= ends

    def _new(self, type: str, text: str) -> Value:
        name = self._fresh("%v")
        self._line(f"{name} = {text}")
        return Value(type, name)

    def _goto(self, label: str) -> None:
        self._line(f"br label %{label}", ends=True)

    def _branch(self, condition: Value, then: str, otherwise: str) -> None:
        self._line(f"br {condition}, label %{then}, label %{otherwise}", ends=True)

    def _label(self, label: str) -> None:
        self._goto(label)
        self._lines.append(f"{label}:")
        self._ended = False

    def _slot(self, type: str, name: str) -> str:
        text = self._fresh(f"%{name}")
        self._slots.append(f"  {text} = alloca {type}, align 8")
        return text

    # ------------------------------------------------------------ statements
    def _run(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value):
                self._any(value)
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                for part, result in zip(targets, [self._any(value) for value in values], strict=True):
                    self._assign(part, result)
            case ast.Assign([target], value):
                self._assign(target, self._any(value))
            case ast.AnnAssign(target, annotation, ast.expr() as initial):
                self._assign(target, self._as(ast.unparse(annotation), initial))
            case ast.AugAssign(target, operator, value):
                self._assign(target, self._any(ast.copy_location(ast.BinOp(target, operator, value), node)))
            case ast.If(test, body, others):
                self._if(test, body, others)
            case ast.While(test, body):
                self._while(test, body, [])
            case ast.For(target, iterable, body):
                self._for(target, iterable, body)
            case ast.Break() | ast.Continue() if self._loop:
                self._goto(self._loop[isinstance(node, ast.Continue)])
            case ast.Return(value):
                self._line(f"ret {self._as(self._function.result, value)}" if value else "ret void", ends=True)
            case _:
                self._fail(node, "no statement of the language")

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name) and target.id not in self._variables:
            if value.type == _CONSTANT:
                self._fail(target, "a number without a type")
            self._variables[target.id] = Value(value.type, self._slot(_llvm(value.type), target.id), True)
        word = self._word(target)
        if not word.word:
            self._fail(target, "no word")
        self._store(word, self._fit(target, word.type, value))

    def _store(self, word: Value, value: Value, atomic: str = "", order: str = "") -> None:
        self._line(f"store{atomic} {value}, ptr {word.text}{order}, align {_BYTES[_llvm(word.type)]}")

    def _if(self, test: ast.expr, body: list[ast.stmt], others: list[ast.stmt]) -> None:
        known = self._known(test)
        if known is not _UNKNOWN:
            self._run(body if known else others)
            return
        then, otherwise, end = (self._fresh(name) for name in ("then", "else", "end"))
        self._branch(self._condition(test), then, otherwise)
        for label, part in ((then, body), (otherwise, others)):
            self._label(label)
            self._run(part)
            self._goto(end)
        self._label(end)

    def _while(self, test: ast.expr, body: list[ast.stmt], step: list[ast.stmt]) -> None:
        start, then, following, end = (self._fresh(name) for name in ("loop", "round", "next", "end"))
        self._label(start)
        if self._known(test) is not True:
            self._branch(self._condition(test), then, end)
            self._label(then)
        outer, self._loop = self._loop, (end, following)
        self._run(body)
        self._loop = outer
        self._label(following)
        self._run(step)
        self._goto(start)
        self._label(end)

    def _for(self, target: Any, iterable: ast.expr, body: list[ast.stmt]) -> None:
        elements: Any = self._known(iterable)
        if isinstance(iterable, ast.Call) and elements is _UNKNOWN:
            zero, one = ast.Constant(0), ast.Constant(1)
            start, end, step = iterable.args if len(iterable.args) == 3 else (zero, iterable.args[0], one)
            self._variables.pop(ast.unparse(target), None)
            self._assign(target, self._as("u64", start))
            self._while(ast.Compare(target, [ast.Lt()], [end]), body, [ast.AugAssign(target, ast.Add(), step)])
            return
        outer, self._loop = self._loop, None  # there is no way out of one round
        for element in iterable.elts if isinstance(iterable, ast.Tuple) and elements is _UNKNOWN else elements:
            if isinstance(element, ast.expr):
                self._assign(target, self._any(element))
            else:
                self._bind(target, element)
            self._run(body)
        self._loop = outer

    def _bind(self, target: ast.expr, element: Any) -> None:
        if isinstance(target, ast.Tuple):
            for part, value in zip(target.elts, element, strict=True):
                self._bind(part, value)
        else:
            self._names[ast.unparse(target)] = element

    # ------------------------------------------------------------ expressions
    def _known(self, node: ast.expr) -> object:
        """Returns the value of an expression that needs no running program."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return _UNKNOWN if name in self._variables or name in self._program else self._names[name]
            case ast.Attribute(base, name):
                known = self._known(base)
                return known if known is _UNKNOWN else getattr(known, name)
            case ast.Call(ast.Name("range" | "enumerate"), parts):
                pass
            case ast.Call():
                return _UNKNOWN
            case _:
                parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        if any(self._known(part) is _UNKNOWN for part in parts):
            return _UNKNOWN
        return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval"), self._names)

    def _as(self, type: str, node: ast.expr) -> Value:
        return self._fit(node, type, self._any(node, type))

    def _fit(self, node: ast.expr, type: str, value: Value) -> Value:
        if value.type not in (type, _CONSTANT) and not _llvm(type) == _llvm(value.type) == "ptr":
            self._fail(node, f"{value.type} in place of {type}")
        return Value(type, value.text)

    def _any(self, node: ast.expr, wanted: str | None = None) -> Value:
        """Returns a value; a constant has the type that is wanted."""
        known: Any = self._known(node)
        if known is None:
            return Value("Memory", "null")
        if isinstance(known, int):
            number = known - (1 << 64) if known >= 1 << 63 else int(known)
            return Value("bool" if isinstance(known, bool) else wanted or _CONSTANT, str(number))
        match node:
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self._read(self._word(node))
            case ast.Call():
                return self._call(node, wanted)
            case ast.BinOp(left, operator, right):
                a, b = self._pair(left, right, wanted)
                operation = _OPERATIONS[type(operator)]
                if operation in ("udiv", "urem", "lshr") and not a.type.startswith("u"):
                    self._fail(node, f"{a.type} has no such operation")
                return self._new(a.type, f"{operation} {a}, {b.text}")
            case ast.Compare(left, [operator], [right]):
                return self._compare(_OPERATIONS[type(operator)], *self._pair(left, right))
            case ast.UnaryOp(ast.Invert(), operand):
                value = self._any(operand)
                return self._new(value.type, f"xor {value}, -1")
            case ast.UnaryOp(ast.Not(), operand):
                return self._new("bool", f"xor {self._condition(operand)}, true")
            case ast.BoolOp(operator, operands):
                return self._bool(isinstance(operator, ast.And), operands)
            case ast.IfExp(test, left, right):
                condition, (a, b) = self._condition(test), self._pair(left, right, wanted)
                return self._new(a.type, f"select {condition}, {a}, {b}")
        return self._fail(node, "no expression of the language")

    def _pair(self, left: ast.expr, right: ast.expr, wanted: str | None = None) -> tuple[Value, Value]:
        """Returns two values of one type."""
        if self._known(left) is not _UNKNOWN:
            b = self._any(right, wanted)
            if b.type == _CONSTANT:
                self._fail(right, "a number without a type")
            return self._as(b.type, left), b
        a = self._any(left, wanted)
        return a, self._as(a.type, right)

    def _compare(self, predicate: str, a: Value, b: Value) -> Value:
        sign = "" if predicate in ("eq", "ne") else "u" if a.type.startswith("u") else "s"
        return self._new("bool", f"icmp {sign}{predicate} {a}, {b.text}")

    def _condition(self, node: ast.expr) -> Value:
        value = self._any(node)
        zero = "null" if _llvm(value.type) == "ptr" else "0"
        return value if value.type == "bool" else self._compare("ne", value, Value(value.type, zero))

    def _bool(self, both: bool, operands: list[ast.expr]) -> Value:
        word, end = Value("bool", self._slot("i1", "holds"), True), self._fresh("end")
        for operand in operands:
            value, more = self._condition(operand), self._fresh("more")
            self._store(word, value)
            self._branch(value, *((more, end) if both else (end, more)))
            self._label(more)
        self._label(end)
        return self._read(word)

    # ------------------------------------------------------------ words
    def _read(self, word: Value, atomic: str = "", order: str = "") -> Value:
        if not word.word:
            return word
        type = _llvm(word.type)
        return self._new(word.type, f"load{atomic} {type}, ptr {word.text}{order}, align {_BYTES[type]}")

    def _word(self, node: ast.expr) -> Value:
        """Returns the word that an expression names, or a value that is in none."""
        match node:
            case ast.Name(name) if name in self._variables:
                value = self._variables[name]
                return Value(_inner(value.type), value.text, True) if value.type.startswith("Shared") else value
            case ast.Attribute(base, name):
                record = self._any(base)
                owner = self._record(record.type) or self._fail(node, "no record")
                kind = next((c.__annotations__[name] for c in owner.__mro__ if name in c.__dict__), "")
                if not kind:
                    self._fail(node, "no field")
                return Value(_inner(kind), self._offset(record.text, getattr(owner, name)), kind.startswith("Field"))
            case ast.Subscript(base, index):
                first = self._any(base)
                record_class, known = self._record(first.type), self._known(index)
                nbytes = record_class.BYTES if record_class else _BYTES[_llvm(_inner(first.type))]
                offset = known * nbytes if isinstance(known, int) else self._any(index).text
                if isinstance(offset, str) and nbytes != 1:
                    offset = self._new("u64", f"mul i64 {offset}, {nbytes}").text
                address = self._offset(first.text, offset)
                return Value(first.type, address) if record_class else Value(_inner(first.type), address, True)
        return self._any(node)

    def _record(self, name: str) -> type[Record] | None:
        record = self._names.get(name)
        return record if isinstance(record, type) and issubclass(record, Record) else None

    def _offset(self, base: str, offset: int | str) -> str:
        return base if offset == 0 else self._new("Memory", f"getelementptr i8, ptr {base}, i64 {offset}").text

    # ------------------------------------------------------------ calls
    def _call(self, node: ast.Call, wanted: str | None) -> Value:
        name = ast.unparse(node.func)
        if name in self._program and name not in self._variables:
            function = self._program[name]
            types = [parameter.type for parameter in function.parameters]
            variadic = function.node.args.vararg is not None
            return self._call_function(node, function.symbol, types, function.result, variadic=variadic)
        if (record := self._record(name)) is not None:
            return Value(name, self._slot(f"[{record.BYTES} x i8]", name))
        result = self._operation(name, node.args, wanted)
        if result is not None:
            return result
        code = self._any(node.func)
        if code.type != "Code":
            self._fail(node, "no function")
        return self._call_function(node, code.text, _KERNEL, "None", variadic=False)

    def _call_function(self, node: ast.Call, symbol: str, types: list[str], result: str, *, variadic: bool) -> Value:
        if len(node.args) < len(types) or (len(node.args) > len(types) and not variadic):
            self._fail(node, f"{len(types)} parameters")
        arguments = [
            Value("Memory", self._word(argument).text) if type.startswith("Shared") else self._as(type, argument)
            for type, argument in zip(types, node.args, strict=False)
        ]
        arguments += [self._any(argument, "i64") for argument in node.args[len(types) :]]
        kinds = ", ".join([_llvm(type) for type in types] + ["..."] * variadic)
        name = ast.unparse(node.func)
        if name in self._program and self._program[name].is_declared and not self._ended:
            self._declared[symbol] = f"declare {_llvm(result)} {symbol}({kinds})"
        text = f"call {_llvm(result)} ({kinds}) {symbol}({', '.join(map(str, arguments))})"
        if result != "None":
            return self._new(result, text)
        self._line(text)
        return NOTHING

    def _operation(self, name: str, arguments: list[ast.expr], wanted: str | None) -> Value | None:
        """Returns the result of a function of ``words``, or None for another name."""
        match name, arguments:
            case "load", [target, *order]:
                return self._read(self._word(target), " atomic", self._order(order))
            case "store", [target, source, *order]:
                value, word = self._any(source), self._word(target)
                self._store(word, self._fit(source, word.type, value), " atomic", self._order(order))
                return NOTHING
            case "fetch_add" | "fetch_sub" | "fetch_and" | "fetch_or" | "exchange", [target, source, *order]:
                value, word = self._any(source), self._word(target)
                value = self._fit(source, word.type, value)
                operation = "xchg" if name == "exchange" else name.removeprefix("fetch_")
                return self._new(word.type, f"atomicrmw {operation} ptr {word.text}, {value}{self._order(order)}")
            case "compare_exchange", [target, expected, source]:
                word = self._word(target)
                old, new = self._as(word.type, expected), self._as(word.type, source)
                both = self._new("None", f"cmpxchg ptr {word.text}, {old}, {new} seq_cst seq_cst")
                return self._new("bool", f"extractvalue {{ {_llvm(word.type)}, i1 }} {both.text}, 1")
            case (("min" | "max"), [left, right]):
                a, b = self._pair(left, right, wanted)
                test = self._compare("lt" if name == "min" else "gt", a, b)
                return self._new(a.type, f"select {test}, {a}, {b}")
            case "address", [source]:
                word = self._word(source)
                return Value(f"Pointer[{word.type}]", word.text)
            case "cast", [kind, source]:
                type, value = ast.unparse(kind), self._any(source)
                conversion = _CONVERSIONS.get((_llvm(value.type), _llvm(type)))
                if conversion is None:
                    return Value(type, value.text)
                return self._new(type, f"{conversion} {value} to {_llvm(type)}")
            case "combine", [kind, operation, into, other]:
                self._combine(str(self._known(kind)), str(self._known(operation)), self._any(into), self._any(other))
                return NOTHING
        return None

    def _order(self, order: list[ast.expr]) -> str:
        return f" {self._known(order[0]) if order else 'seq_cst'}"

    def _combine(self, kind: str, operation: str, into: Value, other: Value) -> None:
        align = int(kind.strip("<>").rpartition("i")[2]) // 8
        a, b = (self._new(kind, f"load {kind}, {each}, align {align}").text for each in (into, other))
        if operation[1:] in ("min", "max"):
            predicate = operation[0] + ("lt" if operation[1:] == "min" else "gt")
            flags = f"{kind.partition(' x ')[0]} x i1>" if kind.startswith("<") else "i1"
            test = self._new(flags, f"icmp {predicate} {kind} {a}, {b}").text
            result = self._new(kind, f"select {flags} {test}, {kind} {a}, {kind} {b}").text
        else:
            result = self._new(kind, f"{operation} {kind} {a}, {b}").text
        self._line(f"store {kind} {result}, {into}, align {align}")


def runtime_text(target: Target) -> str:
    """Returns the runtime as one LLVM module without a triple.  Raises ``UnsupportedFeature`` for other machines.

    The module calls functions of the C library: ``clock_gettime``, ``sched_yield``, ``posix_memalign``, ``free``,
    ``memmove``, ``memset``, ``write`` (and ``memcpy``, which LLVM may use), and ``syscall`` on Linux or ``usleep`` on
    macOS.
    """
    if target.arch not in FUTEX_NUMBER or target.system not in MONOTONIC:
        raise UnsupportedFeature(
            feature=f"native code on {target.arch} {target.system}",
            backend="cpu",
            fix="use x86_64 or aarch64 with Linux or macOS, or the backend `reference`.",
        )
    return translate((machine, work, jobs, step_rows, serving, threads), {"TARGET": target})
