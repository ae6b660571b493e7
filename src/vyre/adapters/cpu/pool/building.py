"""A builder of LLVM functions with structured control flow, for the runtime.

A ``Body`` appends instructions to one function.  Mutable variables are stack slots (``alloca``), which LLVM turns into
registers; loops and conditions are ``with`` blocks.  The builder checks nothing: LLVM's verifier does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

I1: Final = "i1"
I32: Final = "i32"
I64: Final = "i64"
PTR: Final = "ptr"
VOID: Final = "void"

_BYTES: Final = {I32: 4, I64: 8, PTR: 8}


def _alignment(type: str) -> int:
    """Returns the alignment of a value, for a vector that of its elements."""
    return _BYTES[type.strip("<>").split(" x ")[-1]]


def _condition(type: str) -> str:
    """Returns the type of a condition on values of ``type``."""
    return f"{type.partition(' x ')[0]} x i1>" if type.startswith("<") else I1


class Value(NamedTuple):
    """An SSA value or a constant, with its LLVM type."""

    type: str
    name: str


Operand: TypeAlias = "Value | int"

NULL: Final = Value(PTR, "null")
UNUSED: Final = Value(VOID, "")
"""The result of a call that returns nothing."""


class Variable:
    """A mutable variable of a function."""

    __slots__ = ("_body", "pointer", "type")

    def __init__(self, body: Body, type: str, pointer: Value) -> None:
        self._body = body
        self.type: str = type
        self.pointer: Value = pointer

    def get(self) -> Value:
        """Returns the current value."""
        return self._body.load(self.type, self.pointer)

    def set(self, value: Operand) -> None:
        """Assigns a value."""
        self._body.store(self.type, value, self.pointer)


class Loop:
    """An endless loop, which ``leave`` and ``leave_if`` end."""

    __slots__ = ("_body", "_end", "_start")

    def __init__(self, body: Body, start: str, end: str) -> None:
        self._body = body
        self._start = start
        self._end = end

    def leave(self) -> None:
        """Ends the loop."""
        self._body.jump(self._end)

    def leave_if(self, condition: Value) -> None:
        """Ends the loop where ``condition`` holds."""
        with self._body.when(condition):
            self.leave()

    def next(self) -> None:
        """Begins the next round."""
        self._body.jump(self._start)


class Body:
    """The instructions of one function, and its parameters by name."""

    def __init__(self, result: str, name: str, parameters: tuple[tuple[str, str], ...], *, exported: bool) -> None:
        self._head = (
            f"define {'' if exported else 'internal '}{result} @{name}"
            f"({', '.join(f'{type} %{parameter}' for type, parameter in parameters)}) nounwind {{"
        )
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self.parameters: Final = tuple(Value(type, f"%{parameter}") for type, parameter in parameters)

    def text(self) -> str:
        """Returns the function's definition."""
        return "\n".join((self._head, "entry:", *self._slots, *self._lines, "  unreachable", "}"))

    # ------------------------------------------------------------ instructions
    def line(self, text: str) -> None:
        """Appends an instruction without a result."""
        self._lines.append(f"  {text}")

    def value(self, type: str, text: str) -> Value:
        """Appends an instruction and returns its result."""
        made = Value(type, self._fresh("%v"))
        self.line(f"{made.name} = {text}")
        return made

    def _fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def binary(self, operation: str, a: Operand, b: Operand) -> Value:
        """Returns ``a operation b``; at most one operand is an int, of the other's type."""
        type = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else I64
        return self.value(type, f"{operation} {type} {shown(a)}, {shown(b)}")

    def add(self, a: Operand, b: Operand) -> Value:
        """Returns ``a + b``."""
        return self.binary("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        """Returns ``a - b``."""
        return self.binary("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        """Returns ``a * b``."""
        return self.binary("mul", a, b)

    def both(self, a: Operand, b: Operand) -> Value:
        """Returns the bitwise and."""
        return self.binary("and", a, b)

    def either(self, a: Operand, b: Operand) -> Value:
        """Returns the bitwise or."""
        return self.binary("or", a, b)

    def negate(self, condition: Value) -> Value:
        """Returns the opposite of a condition."""
        return self.value(I1, f"xor i1 {condition.name}, true")

    def compare(self, predicate: str, a: Value, b: Operand) -> Value:
        """Returns the condition ``a predicate b``, with a predicate of ``icmp``."""
        return self.value(_condition(a.type), f"icmp {predicate} {a.type} {a.name}, {shown(b)}")

    def choose(self, condition: Value, a: Operand, b: Operand) -> Value:
        """Returns ``a`` where ``condition`` holds, and ``b`` elsewhere."""
        type = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else I64
        return self.value(type, f"select {condition.type} {condition.name}, {type} {shown(a)}, {type} {shown(b)}")

    def least(self, a: Value, b: Operand) -> Value:
        """Returns the unsigned minimum."""
        return self.choose(self.compare("ult", a, b), a, b)

    def most(self, a: Value, b: Operand) -> Value:
        """Returns the unsigned maximum."""
        return self.choose(self.compare("ugt", a, b), a, b)

    def convert(self, operation: str, a: Value, type: str) -> Value:
        """Returns ``a`` converted to another type with ``zext``, ``trunc``, ``inttoptr`` or ``ptrtoint``."""
        return self.value(type, f"{operation} {a.type} {a.name} to {type}")

    def up_to(self, a: Value, multiple: int) -> Value:
        """Returns ``a`` rounded up to a multiple of a power of two."""
        return self.both(self.add(a, multiple - 1), -multiple)

    def lowest_bit(self, a: Value) -> Value:
        """Returns the position of the lowest bit that is set; ``a`` is not 0."""
        return self.value(I64, f"call i64 @llvm.cttz.i64(i64 {a.name}, i1 true)")

    # ------------------------------------------------------------ memory
    def at(self, base: Value, offset: Operand) -> Value:
        """Returns the address ``offset`` bytes behind ``base``."""
        return base if offset == 0 else self.value(PTR, f"getelementptr i8, ptr {base.name}, i64 {shown(offset)}")

    def load(self, type: str, base: Value, offset: Operand = 0) -> Value:
        """Returns the value of ``type`` at ``base + offset``."""
        return self.value(type, f"load {type}, ptr {self.at(base, offset).name}, align {_alignment(type)}")

    def store(self, type: str, value: Operand, base: Value, offset: Operand = 0) -> None:
        """Stores a value of ``type`` at ``base + offset``."""
        self.line(f"store {type} {shown(value)}, ptr {self.at(base, offset).name}, align {_alignment(type)}")

    def peek(self, type: str, base: Value, offset: Operand = 0, *, order: str = "monotonic") -> Value:
        """Returns the value at ``base + offset``, loaded atomically."""
        return self.value(type, f"load atomic {type}, ptr {self.at(base, offset).name} {order}, align {_BYTES[type]}")

    def poke(self, type: str, value: Operand, base: Value, offset: Operand = 0, *, order: str = "monotonic") -> None:
        """Stores a value at ``base + offset`` atomically."""
        place = self.at(base, offset).name
        self.line(f"store atomic {type} {shown(value)}, ptr {place} {order}, align {_BYTES[type]}")

    def update(
        self, operation: str, type: str, value: Operand, base: Value, offset: Operand = 0, *, order: str = "seq_cst"
    ) -> Value:
        """Replaces the value at ``base + offset`` atomically, by an operation of ``atomicrmw``; returns the old one."""
        return self.value(
            type, f"atomicrmw {operation} ptr {self.at(base, offset).name}, {type} {shown(value)} {order}"
        )

    def exchange(
        self, type: str, expected: Operand, new: Operand, base: Value, offset: Operand = 0
    ) -> tuple[Value, Value]:
        """Stores ``new`` at ``base + offset`` where ``expected`` is found; returns the old value and whether it was."""
        place = self.at(base, offset).name
        found = self._fresh("%v")
        self.line(f"{found} = cmpxchg ptr {place}, {type} {shown(expected)}, {type} {shown(new)} seq_cst seq_cst")
        old = self.value(type, f"extractvalue {{ {type}, i1 }} {found}, 0")
        return old, self.value(I1, f"extractvalue {{ {type}, i1 }} {found}, 1")

    def variable(self, type: str, initial: Operand | None = None) -> Variable:
        """Returns a new variable.  It is assigned where it is made, if ``initial`` is given."""
        made = Variable(self, type, self.space(type))
        if initial is not None:
            made.set(initial)
        return made

    def space(self, type: str) -> Value:
        """Returns the address of stack memory for a value of ``type``, which exists once for the whole call."""
        place = Value(PTR, self._fresh("%s"))
        self._slots.append(f"  {place.name} = alloca {type}, align 8")
        return place

    # ------------------------------------------------------------ flow
    def call(self, result: str, name: str, *arguments: Value) -> Value:
        """Calls the function ``name``."""
        return self._call(result, result, f"@{name}", arguments)

    def call_pointer(self, function: Value, *arguments: Value) -> None:
        """Calls a function, which returns nothing, through its address."""
        self._call(VOID, VOID, function.name, arguments)

    def call_variadic(self, result: str, name: str, fixed: tuple[str, ...], *arguments: Value) -> Value:
        """Calls a function with a variable number of arguments; ``fixed`` are the types of those that it names."""
        return self._call(result, f"{result} ({', '.join((*fixed, '...'))})", f"@{name}", arguments)

    def _call(self, result: str, type: str, name: str, arguments: tuple[Value, ...]) -> Value:
        text = f"call {type} {name}({', '.join(f'{value.type} {value.name}' for value in arguments)})"
        if result != VOID:
            return self.value(result, text)
        self.line(text)
        return UNUSED

    def ret(self, value: Operand | None = None, type: str = I64) -> None:
        """Returns from the function."""
        self.line(
            "ret void" if value is None else f"ret {value.type if isinstance(value, Value) else type} {shown(value)}"
        )
        self._label(self._fresh("after"))

    def jump(self, label: str) -> None:
        """Goes on at ``label``; what follows in the text is not reached from here."""
        self.line(f"br label %{label}")
        self._label(self._fresh("after"))

    def _label(self, label: str) -> None:
        self._lines.append(f"{label}:")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Runs the block where ``condition`` holds."""
        then, end = self._fresh("then"), self._fresh("end")
        self.line(f"br i1 {condition.name}, label %{then}, label %{end}")
        self._label(then)
        yield
        self.line(f"br label %{end}")
        self._label(end)

    @contextmanager
    def unless(self, condition: Value) -> Iterator[None]:
        """Runs the block where ``condition`` does not hold."""
        with self.when(self.negate(condition)):
            yield

    @contextmanager
    def loop(self) -> Iterator[Loop]:
        """Repeats the block until it leaves the loop."""
        start, end = self._fresh("loop"), self._fresh("end")
        self.line(f"br label %{start}")
        self._label(start)
        yield Loop(self, start, end)
        self.line(f"br label %{start}")
        self._label(end)


def shown(operand: Operand) -> str:
    """Returns the text of an operand."""
    return operand.name if isinstance(operand, Value) else str(operand)


def constant(type: str, value: int) -> Value:
    """Returns an integer constant."""
    return Value(type, str(value))
