"""Random kernels in plain Python, which Python runs lane by lane over NumPy scalars of the same types.

Everything that is written keeps to what both sides define: no index out of range, no division by zero, no conversion
that overflows.  Loops are bounded.  Each local has one type for its whole life, as kernels require.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

INTEGERS: Final = ("u32", "i32", "u64", "i64")
TYPES: Final = (*INTEGERS, "f32", "f64", "bool")
_WIDTH: Final = {"u32": 32, "i32": 32, "u64": 64, "i64": 64}
_SIGNED: Final = ("i32", "i64")
LANES: Final = 12
ELEMENTS: Final = 16
"""The elements of every array, a power of two."""
INDENT: Final = "    "
_DEEPEST: Final = 3


@dataclass(slots=True)
class Scope:
    """The names that have a value at a place, by type; ``fixed`` cannot be assigned."""

    names: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in TYPES})
    fixed: set[str] = field(default_factory=set)

    def copy(self) -> Scope:
        """Returns a scope of its own with the same names."""
        return Scope({kind: list(names) for kind, names in self.names.items()}, set(self.fixed))

    def variables(self, kind: str) -> list[str]:
        """Returns the names of a type that can be assigned."""
        return [name for name in self.names[kind] if name not in self.fixed]


class Writer:
    """Writes the source of one random kernel."""

    def __init__(self, seed: int) -> None:
        self._chance: Final = random.Random(f"python kernel {seed}")
        self._lines: list[str] = []
        self._used = 0
        self._functions: list[tuple[str, tuple[str, ...], str]] = []
        self._loops: list[bool] = []
        self._left = 60
        self._in_kernel = False
        self._unsure = 0  # inside an operand that Python may leave out, where functions cannot be called
        self._types: tuple[str, ...] = tuple(self._chance.sample(("u32", "i32", "f32", "u64", "i64", "f64"), 3))

    # ------------------------------------------------------------ the whole kernel
    def source(self) -> str:
        """Returns the source of the functions and of the kernel ``generated``."""
        for _ in range(self._chance.randrange(3)):
            self._function()
        self._in_kernel = True
        scope = Scope()
        arrays = ", ".join(f"x_{kind}: In[{kind}]" for kind in self._types)
        results = ", ".join(f"y_{kind}: Out[{kind}, {ELEMENTS}]" for kind in self._types)
        self._lines += ["@kernel", f"def generated({arrays}, {results}, n: u32):"]
        self._line(1, "lane = vyre.global_id()")
        self._line(1, f"if lane >= {ELEMENTS}:")
        self._line(2, "return")
        for kind in self._types:
            self._line(1, f"v_{kind} = x_{kind}[lane]")
            scope.names[kind].append(f"v_{kind}")
        self._line(1, "gid = u32(lane)")
        scope.names["u32"] += ["gid", "n"]
        scope.fixed |= {"gid", "n"}
        if self._chance.random() < 0.4:
            self._private(scope)
        self._body(1, scope, self._chance.randrange(3, 9))
        for kind in self._types:
            self._line(1, f"y_{kind}[lane] = {self._expression(kind, scope, 2)}")
        return "\n".join(self._lines) + "\n"

    @property
    def types(self) -> tuple[str, ...]:
        """Returns the element types of the arrays."""
        return self._types

    def _private(self, scope: Scope) -> None:
        kind = self._chance.choice(self._types)
        self._line(1, f"stack = vyre.private_array({kind}, {ELEMENTS})")
        for _ in range(2):
            self._line(1, f"stack[{self._index(scope)}] = {self._expression(kind, scope, 1)}")
        self._line(1, f"stack[{self._index(scope)}] += {self._expression(kind, scope, 1)}")
        self._line(1, f"kept = stack[{self._index(scope)}]")
        scope.names[kind].append("kept")

    def _function(self) -> None:
        name = f"helper{len(self._functions)}"
        kinds = tuple(self._chance.choice(self._types) for _ in range(self._chance.randrange(1, 4)))
        result = self._chance.choice(self._types)
        scope = Scope()
        parameters = []
        for number, kind in enumerate(kinds):
            scope.names[kind].append(f"p{number}")
            parameters.append(f"p{number}")
        self._lines += ["@function", f"def {name}({', '.join(parameters)}):"]
        self._left, before = 10, self._left
        self._body(1, scope, self._chance.randrange(0, 3), result=result)
        self._left = before
        self._line(1, f"return {self._expression(result, scope, 2)}")
        self._lines.append("")
        self._functions.append((name, kinds, result))

    # ------------------------------------------------------------ statements
    def _line(self, depth: int, text: str) -> None:
        self._lines.append(INDENT * depth + text)

    def _name(self) -> str:
        self._used += 1
        return f"t{self._used}"

    def _body(self, depth: int, scope: Scope, count: int, result: str | None = None) -> None:
        start = len(self._lines)
        for _ in range(count):
            if self._left <= 0:
                break
            self._left -= 1
            self._statement(depth, scope, result)
        if len(self._lines) == start:
            self._line(depth, "pass")

    def _statement(self, depth: int, scope: Scope, result: str | None) -> None:
        rules: list[tuple[Callable[[int, Scope, str | None], None], int]] = [
            (self._let, 4),
            (self._change, 6),
            (self._swap, 1),
        ]
        if depth < _DEEPEST:
            rules += [(self._if, 4), (self._for, 3), (self._while, 2), (self._match, 1), (self._static, 1)]
            rules += [(self._merged, 2), (self._search, 1)]
        if self._loops and not self._loops[-1]:
            rules.append((self._leave, 1))
        if result is not None and depth > 1 and True not in self._loops:
            rules.append((self._return, 1))
        chosen = self._chance.choices([rule for rule, _ in rules], [weight for _, weight in rules])[0]
        chosen(depth, scope, result)

    def _kind(self) -> str:
        return self._chance.choice((*self._types, *self._types, "bool"))

    def _let(self, depth: int, scope: Scope, result: str | None) -> None:
        kind, name = self._kind(), self._name()
        if kind != "bool" and self._chance.random() < 0.2:
            self._line(depth, f"{name} = {self._number(kind)}")  # it takes its type from the next line
            self._line(depth, f"{name} += {self._expression(kind, scope, 1)}")
        else:
            self._line(depth, f"{name} = {self._expression(kind, scope, 2)}")
        scope.names[kind].append(name)

    def _change(self, depth: int, scope: Scope, result: str | None) -> None:
        kinds = [kind for kind in TYPES if scope.variables(kind)]
        if not kinds:
            self._let(depth, scope, result)
            return
        kind = self._chance.choice(kinds)
        name = self._chance.choice(scope.variables(kind))
        if kind == "bool" or self._chance.random() < 0.4:
            self._line(depth, f"{name} = {self._expression(kind, scope, 3)}")
        else:
            operators = ("+", "-", "*", "&", "|", "^") if kind in INTEGERS else ("+", "-", "*")
            self._line(depth, f"{name} {self._chance.choice(operators)}= {self._expression(kind, scope, 2)}")

    def _swap(self, depth: int, scope: Scope, result: str | None) -> None:
        kinds = [kind for kind in TYPES if len(scope.variables(kind)) > 1]
        if not kinds:
            self._change(depth, scope, result)
            return
        kind = self._chance.choice(kinds)
        a, b = self._chance.sample(scope.variables(kind), 2)
        self._line(depth, f"{a}, {b} = {b}, {self._expression(kind, scope, 1)}")

    def _if(self, depth: int, scope: Scope, result: str | None) -> None:
        self._line(depth, f"if {self._expression('bool', scope, 2)}:")
        self._body(depth + 1, scope.copy(), self._chance.randrange(1, 4), result)
        for _ in range(self._chance.choice((0, 0, 1))):
            self._line(depth, f"elif {self._maybe('bool', scope, 2)}:")
            self._body(depth + 1, scope.copy(), self._chance.randrange(1, 3), result)
        if self._chance.random() < 0.5:
            self._line(depth, "else:")
            self._body(depth + 1, scope.copy(), self._chance.randrange(1, 3), result)

    def _merged(self, depth: int, scope: Scope, result: str | None) -> None:
        """Assigns a new name in both branches."""
        kind, name = self._kind(), self._name()
        self._line(depth, f"if {self._expression('bool', scope, 2)}:")
        self._line(depth + 1, f"{name} = {self._expression(kind, scope, 2)}")
        self._line(depth, "else:")
        self._line(depth + 1, f"{name} = {self._expression(kind, scope, 2)}")
        scope.names[kind].append(name)

    def _range(self, scope: Scope) -> tuple[str, str]:
        """Returns the text of a range and the type in which its loop counts."""
        chance = self._chance
        if chance.random() < 0.5:
            kind = chance.choice(("u32", "i32"))
            start, stop = sorted(chance.sample(range(8), 2))
            step = chance.choice((1, 1, 2, 3))
            if kind == "i32":
                start -= 4
            return f"{kind}({start}), {kind}({stop}), {kind}({step})", kind
        if chance.random() < 0.5:
            return f"u32({self._expression('u32', scope, 1)} & u32(7))", "u32"
        return f"i32({chance.randrange(0, 6)}), i32({chance.randrange(-6, 1)}), i32({-chance.randrange(1, 3)})", "i32"

    def _for(self, depth: int, scope: Scope, result: str | None) -> None:
        bounds, kind = self._range(scope)
        name = self._name()
        self._line(depth, f"for {name} in range({bounds}):")
        inner = scope.copy()
        counted = f"{name}_{kind}"
        self._line(depth + 1, f"{counted} = {kind}({name})")
        inner.names[kind].append(counted)
        self._loops.append(False)
        self._body(depth + 1, inner, self._chance.randrange(1, 4), result)
        self._loops.pop()

    def _search(self, depth: int, scope: Scope, result: str | None) -> None:
        """Reads the variable of a loop after it."""
        name, kind = self._name(), self._chance.choice(("u32", "i32"))
        self._line(depth, f"{name} = {kind}({self._chance.randrange(9)})")
        self._line(depth, f"for {name} in range({kind}({self._chance.randrange(9)})):")
        self._line(depth + 1, f"if {self._expression('bool', scope, 1)}:")
        self._line(depth + 2, "break")
        kept = self._name()
        self._line(depth, f"{kept} = {kind}({name})")
        scope.names[kind].append(kept)

    def _while(self, depth: int, scope: Scope, result: str | None) -> None:
        counter = self._name()
        self._line(depth, f"{counter} = 0")
        self._line(depth, f"while {counter} < {self._chance.randrange(1, 7)} and {self._maybe('bool', scope, 2)}:")
        self._line(depth + 1, f"{counter} += 1")
        self._loops.append(False)
        self._body(depth + 1, scope.copy(), self._chance.randrange(1, 4), result)
        self._loops.pop()

    def _static(self, depth: int, scope: Scope, result: str | None) -> None:
        kind, name = self._chance.choice(self._types), self._name()
        items = ", ".join(self._number(kind) for _ in range(self._chance.randrange(1, 4)))
        self._line(depth, f"for {name} in vyre.static(({items},)):")
        variables = scope.variables(kind)
        if variables:
            target = self._chance.choice(variables)
            self._line(depth + 1, f"{target} = {target} + {name} * {self._expression(kind, scope, 1)}")
        else:
            self._line(depth + 1, "pass")

    def _match(self, depth: int, scope: Scope, result: str | None) -> None:
        kinds = [kind for kind in INTEGERS if scope.names[kind]]
        if not kinds:
            self._change(depth, scope, result)
            return
        kind = self._chance.choice(kinds)
        self._line(depth, f"match {self._expression(kind, scope, 1)} & {kind}(3):")
        first, *rest = self._chance.sample(range(4), 3)
        self._line(depth + 1, f"case {first}:")
        self._body(depth + 2, scope.copy(), 1, result)
        self._line(depth + 1, f"case {' | '.join(map(str, rest))}:")
        self._body(depth + 2, scope.copy(), 1, result)
        if self._chance.random() < 0.5:
            self._line(depth + 1, "case _:")
            self._body(depth + 2, scope.copy(), 1, result)

    def _leave(self, depth: int, scope: Scope, result: str | None) -> None:
        self._line(depth, f"if {self._expression('bool', scope, 1)}:")
        self._line(depth + 1, self._chance.choice(("break", "continue")))

    def _return(self, depth: int, scope: Scope, result: str | None) -> None:
        assert result is not None
        self._line(depth, f"if {self._expression('bool', scope, 1)}:")
        self._line(depth + 1, f"return {self._expression(result, scope, 2)}")

    # ------------------------------------------------------------ expressions
    def _number(self, kind: str) -> str:
        chance = self._chance
        if kind == "bool":
            return chance.choice(("True", "False"))
        if kind in INTEGERS:
            return str(chance.choice((0, 1, 2, 3, 7, 255, 1000, 65535, 2**31 - 1)))
        return repr(chance.choice((0.0, 0.5, 1.0, 1.5, 0.1, 3.25, 1e-3, 100.0)))

    def _index(self, scope: Scope) -> str:
        if scope.names["u32"] and self._chance.random() < 0.7:
            return f"({self._expression('u32', scope, 1)}) & {ELEMENTS - 1}"
        return str(self._chance.randrange(ELEMENTS))

    def _leaf(self, kind: str, scope: Scope) -> str:
        names = scope.names[kind]
        if names and self._chance.random() < 0.75:
            return self._chance.choice(names)
        if kind in self._types and self._in_kernel and self._chance.random() < 0.4:
            return f"x_{kind}[{self._chance.randrange(ELEMENTS)}]"
        if kind == "bool":
            return self._number(kind)
        return f"{kind}({self._number(kind)})"

    def _expression(self, kind: str, scope: Scope, depth: int) -> str:
        """Returns an expression of a type, typed on both sides."""
        chance = self._chance
        if depth <= 0 or chance.random() < 0.15:
            return self._leaf(kind, scope)
        if kind == "bool":
            return self._condition(scope, depth)

        def sub() -> str:
            return self._expression(kind, scope, depth - 1)

        choices: list[Callable[[], str]] = [
            lambda: f"({sub()} {chance.choice('+-*')} {sub()})",
            lambda: f"({sub()} {chance.choice('+-*')} {self._number(kind)})",
            lambda: (
                f"({self._maybe(kind, scope, depth)} if {self._expression('bool', scope, depth - 1)}"
                f" else {self._maybe(kind, scope, depth)})"
            ),
            lambda: f"{chance.choice(('min', 'max'))}({sub()}, {sub()})",
            lambda: f"abs({sub()})" if kind not in ("u32", "u64") else sub(),
        ]
        if kind in INTEGERS:
            choices += self._integers(kind, scope, depth)
        else:
            choices += [
                lambda: f"({sub()} / {sub()})",
                lambda: f"(-{sub()})",
                lambda: f"np.{chance.choice(('floor', 'ceil', 'trunc', 'rint', 'fabs'))}({sub()})",
                lambda: f"np.sqrt(abs({sub()}))",
            ]
            wholes = [t for t in INTEGERS if scope.names[t]]
            if wholes:
                whole = chance.choice(wholes)
                choices.append(lambda: f"{kind}({self._expression(whole, scope, depth - 1)})")
        suited = [one for one in self._functions if one[2] == kind]
        if suited and self._in_kernel and not self._unsure:
            choices.append(lambda: self._helped(chance.choice(suited), scope, depth))
        return chance.choice(choices)()

    def _maybe(self, kind: str, scope: Scope, depth: int) -> str:
        """Returns an operand that Python may leave out."""
        self._unsure += 1
        text = self._expression(kind, scope, depth - 1)
        self._unsure -= 1
        return text

    def _helped(self, helper: tuple[str, tuple[str, ...], str], scope: Scope, depth: int) -> str:
        name, kinds, _ = helper
        return f"{name}({', '.join(self._expression(kind, scope, depth - 1) for kind in kinds)})"

    def _integers(self, kind: str, scope: Scope, depth: int) -> list[Callable[[], str]]:
        chance, width = self._chance, _WIDTH[kind]

        def sub() -> str:
            return self._expression(kind, scope, depth - 1)

        found: list[Callable[[], str]] = [
            lambda: f"({sub()} {chance.choice('&|^')} {sub()})",
            lambda: f"(~{sub()})",
            lambda: f"({sub()} {chance.choice(('<<', '>>'))} {chance.randrange(width)})",
            lambda: f"({sub()} {chance.choice(('<<', '>>'))} ({sub()} & {kind}({2 * width - 1})))",
            lambda: f"({sub()} {chance.choice(('//', '%'))} {chance.choice((1, 2, 3, 7, 10, 1000))})",
            lambda: f"({sub()} {chance.choice(('//', '%'))} (({sub()} & {kind}(15)) + {kind}(1)))",
            lambda: f"divmod({sub()}, {kind}({chance.choice((3, 5, 16))}))[{chance.randrange(2)}]",
        ]
        if kind in _SIGNED:
            found += [
                lambda: f"(-{sub()})",
                lambda: f"({sub()} {chance.choice(('//', '%'))} {kind}(-{chance.choice((2, 3, 10))}))",
            ]
        others = [t for t in INTEGERS if t != kind and scope.names[t]]
        if others:
            other = chance.choice(others)
            found.append(lambda: f"{kind}({self._expression(other, scope, depth - 1)})")
        return found

    def _condition(self, scope: Scope, depth: int) -> str:
        chance = self._chance
        kinds = [kind for kind in self._types if scope.names[kind]] or list(self._types)
        kind = chance.choice(kinds)

        def sub() -> str:
            return self._expression(kind, scope, depth - 1)

        def logical() -> str:
            return self._expression("bool", scope, depth - 1)

        compared = ("<", "<=", ">", ">=", "==", "!=")
        choices: list[Callable[[], str]] = [
            lambda: f"({sub()} {chance.choice(compared)} {sub()})",
            lambda: f"({sub()} {chance.choice(compared)} {self._number(kind)})",
            lambda: (
                f"({sub()} {chance.choice(compared)} {sub()} {chance.choice(compared)}"
                f" {self._maybe(kind, scope, depth)})"
            ),
            lambda: f"({logical()} {chance.choice(('and', 'or'))} {self._maybe('bool', scope, depth)})",
            lambda: f"(not {logical()})",
        ]
        if kind in INTEGERS:
            choices.append(lambda: f"({sub()} in ({self._number(kind)}, {self._number(kind)}, 5))")
        return chance.choice(choices)()
