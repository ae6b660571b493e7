"""Differential fuzzing of captures: ``PYTHONPATH=src:tests python -m support.fuzzing.captured --calls 20000``.

Each random kernel computes with constants, enumerations, numbers and types of NumPy, texts, tuples, functions,
attributes of modules, classes, namespaces and instances, closures and Static arguments.  Between its calls something
that it reaches is changed.  Every call must give what the function gives when Python runs it, or refuse.
"""

from __future__ import annotations

import argparse
import linecache
import math
import random
import sys
import warnings
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum, IntEnum, IntFlag, StrEnum
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np

import vyre
from vyre.domain.ir.numpy_scalars import whole_number

CALLS: Final = 6
"""The calls of each kernel."""


class Plain(Enum):
    A = 1
    B = "b"


class Whole(IntEnum):
    LOW = 1
    HIGH = 200


class Flags(IntFlag):
    ONE = 1
    TWO = 2


class Text(StrEnum):
    FAST = "fast"
    SLOW = "slow"


class Own(int):
    """A number with an operator of its own."""

    def __add__(self, other: object) -> int:
        return 99


class Elements:
    """An array as Python sees it: its type is one of NumPy, which kernels also compare with vyre's."""

    class Dtype:
        def __eq__(self, other: object) -> bool:
            return other is vyre.f32 or np.dtype(np.float32) == other

        __hash__ = None  # type: ignore[assignment]

    dtype: Final = Dtype()


class Stored:
    """An object with a slot, a stored attribute of its class and a computed one."""

    __slots__ = ("n",)
    shared: Any = 3

    def __init__(self, n: Any) -> None:
        self.n = n

    @property
    def computed(self) -> Any:
        return self.n


Pair = namedtuple("Pair", "first second")  # made as old code makes it
_SCALARS: Final = (
    np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64,
    np.float16, np.float32, np.float64, np.bool_,
)  # fmt: skip
_TEXTS: Final = ("fast", "slow", "", "-".join(["fast", "math"]), "float32")
_TYPES: Final = (np.float32, np.int32, np.uint8, np.dtype("f4"), np.dtype("i4"), vyre.f32, vyre.i32, "float32", "<f4")
HEAD: Final = "import vyre\nfrom vyre import In, Out, Static, f32, f64\n"


class World:
    """The names of a module of kernels, and what changes in it."""

    def __init__(self, seed: int) -> None:
        self.chance: Final = random.Random(seed)
        self.names: Final[dict[str, Any]] = {"__name__": "captured", "np": np, "Plain": Plain, "Whole": Whole}
        self.names.update(Flags=Flags, Text=Text)
        for number in range(3):
            self.names[f"N{number}"] = self.number()
            self.names[f"X{number}"] = self.thing()
        self.names["F"] = self.scalar()
        self.names["T"] = self.tuple()
        self.names["D"] = self.chance.choice(_TYPES)
        module, inner = ModuleType("ops"), ModuleType("sub")
        module.__dict__.update(n=self.number(), sub=inner, pick=self.names["N0"], s=self.text())
        inner.__dict__.update(n=self.number())
        self.names["ops"] = module
        self.names["Held"] = type("Held", (), {"n": self.number(), "s": self.text(), "f": staticmethod(abs)})
        self.names["ns"] = SimpleNamespace(n=self.number(), inner=SimpleNamespace(n=self.number()))
        self.names["obj"] = Stored(self.number())
        self.names["pair"] = Pair(self.number(), self.number())

    # ------------------------------------------------------------ values
    def number(self) -> Any:
        """Returns a number of Python or NumPy, of any kind."""
        chance = self.chance
        match chance.randrange(8):
            case 0:
                return chance.choice([0, 1, -1, 2, 7, 255, 256, 2**31, -(2**31), 2**40, 1000])
            case 1:
                return chance.choice([0.0, -0.0, 1.0, 0.1, -2.5, 16777216.0, math.inf, math.nan, 3.0])
            case 2:
                return chance.random() < 0.5
            case 3:
                return chance.choice([Whole.LOW, Whole.HIGH, Flags.ONE, Flags.TWO])
            case 4 if chance.random() < 0.3:
                return np.array(self.scalar())
            case 5 if chance.random() < 0.1:
                return Own(4)
            case _:
                return self.scalar()

    def static(self, kind: type) -> Any:
        """Returns a number for a Static argument, as a rule of its kind."""
        found = self.number()
        while self.chance.random() < 0.97 and type(found.item() if hasattr(found, "item") else found) is not kind:
            found = self.number()
        return found

    def scalar(self) -> Any:
        """Returns a number of NumPy."""
        kind = self.chance.choice(_SCALARS)
        value = self.chance.choice([0, 1, 2, 3, 5, 100, 200, 0.1, 0.5, 16777216, -1, -3, 1e30])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.array(value).astype(kind)[()]

    def text(self) -> Any:
        """Returns a text, sometimes of another class than str."""
        found = "".join(self.chance.choice(_TEXTS))
        return self.chance.choice([found, found, Text.FAST, np.str_("fast"), None])

    def tuple(self) -> Any:
        """Returns a tuple of things, sometimes with one in it."""
        items = [self.thing() for _ in range(self.chance.randint(1, 3))]
        return tuple(items) if self.chance.random() < 0.7 else (self.number(), tuple(items))

    def thing(self) -> Any:
        """Returns anything that may be compared."""
        match self.chance.randrange(6):
            case 0 | 1:
                return self.number()
            case 2 | 3:
                return self.text()
            case 4:
                return self.chance.choice([Plain.A, Plain.B, Text.SLOW, None, True, abs, np])
            case _:
                return self.chance.choice(_TYPES)

    # ------------------------------------------------------------ changes
    def change(self, kernel: Any, helpers: list[Any], cells: list[Any]) -> None:
        """Changes one thing that a kernel may reach, in one of the ways in which Python changes it."""
        names, chance = self.names, self.chance
        match chance.randrange(14):
            case 0 | 1:
                names[f"N{chance.randrange(3)}"] = self.number()
            case 2:
                names[f"X{chance.randrange(3)}"] = self.thing()
            case 3:
                setattr(names["ops"], chance.choice(["n", "pick"]), self.number())
            case 4:
                names["ops"].sub = ModuleType("sub")
                names["ops"].sub.n = self.number()
            case 5:
                setattr(names["Held"], chance.choice("ns"), chance.choice([self.number(), self.text()]))
            case 6:
                names["ns"].inner = SimpleNamespace(n=self.number())
            case 7:
                names["obj"].n = self.number()
                Stored.shared = self.number()
            case 8:
                for held in (*names.values(), *vars(names["ops"]).values()):
                    if isinstance(held, np.ndarray):
                        held[...] = chance.choice([1, 0, 3])
            case 9 if cells:
                chance.choice(cells).cell_contents = self.number()
            case 10:
                helper = chance.choice(helpers).function
                helper.__defaults__ = (self.number(),)
                helper.__kwdefaults__["by"] = self.number()
            case 11:
                one, other = helpers[:2]
                one.function.__code__, other.function.__code__ = other.function.__code__, one.function.__code__
            case 12:
                names["T"], names["F"] = self.tuple(), self.scalar()
                names["D"] = chance.choice(_TYPES)
            case _:
                for name, value in (("min", max), ("abs", int)):
                    if names.pop(name, None) is None:
                        names[name] = value


class Writer:
    """Random expressions over the names of a world."""

    def __init__(self, chance: random.Random, extra: tuple[str, ...]) -> None:
        self.chance: Final = chance
        self.numbers: Final = (
            "N0", "N1", "N2", "ops.n", "ops.sub.n", "ops.pick", "Held.n", "ns.n", "ns.inner.n", "obj.n", "obj.shared",
            "T[0]", "pair.first", "Whole.HIGH", "Flags.TWO", "Whole.LOW.value", *extra, *extra,
        )  # fmt: skip
        self.things: Final = ("X0", "X1", "X2", "ops.s", "Held.s", "None", "Plain.A", "Plain.B.value", "Text.FAST", "D")

    def number(self, depth: int) -> str:
        """Returns an expression that gives a number, as a rule."""
        chance = self.chance
        if depth <= 0 or chance.random() < 0.15:
            return chance.choice([*self.numbers, "0", "1", "2", "3", "100", "255", "0.5", "0.1", "-1"])
        a, b = self.number(depth - 1), self.number(depth - 1)
        match chance.randrange(9):
            case 0 | 1 | 2:
                return f"({a} {chance.choice(['+', '-', '*', '//', '%', '/', '&', '|', '^', '<<', '>>'])} {b})"
            case 3:
                return f"({a} ** {chance.choice(['2', '3', '-1', b])})"
            case 4:
                return f"({chance.choice('-+~')}{a})"
            case 5:
                return f"{chance.choice(['int', 'float', 'abs', 'bool', 'round', 'Held.f'])}({a})"
            case 6:
                return f"{chance.choice(['min', 'max'])}({a}, {b})"
            case 7:
                return f"({a} if {self.truth(depth - 1)} else {b})"
            case _:
                return chance.choice(
                    [f"h0({a})", f"h1({a}, by={b})", f"h2({a}, {b})", f"({a} and {b})", f"({a} or {b})"]
                )

    def truth(self, depth: int) -> str:
        """Returns an expression that gives a truth value, as a rule."""
        chance = self.chance
        a, b = self.any(depth), self.any(depth)
        match chance.randrange(8):
            case 0 | 1 | 2:
                return f"({a} {chance.choice(['==', '!=', '==', '<', '<=', '>', '>='])} {b})"
            case 3:
                return f"({self.number(depth - 1)} < {self.number(depth - 1)} <= {b})"
            case 4:
                return f"({a} {chance.choice(['in', 'not in'])} ({b}, {self.any(0)}))"
            case 5:
                return f"({a} {chance.choice(['is', 'is not'])} {chance.choice(['None', 'Plain.A', 'np', b])})"
            case 6:
                return f"({a} {chance.choice(['in', 'not in'])} {chance.choice(['T', 'range(3)', b])})"
            case _:
                return f"(not {self.number(depth - 1)})" if depth > 0 else a

    def any(self, depth: int) -> str:
        """Returns an expression of any kind."""
        pick = self.chance.random()
        if pick < 0.45:
            return self.number(depth - 1)
        if pick < 0.6:
            return self.chance.choice(["'fast'", "'slow'", "'float32'", "x.dtype", "x.dtype", "T", "np.float32"])
        return self.chance.choice(self.things)

    def body(self) -> str:
        """Returns the statements of a kernel."""
        indent, chance = "        ", self.chance
        match chance.randrange(6):
            case 0 | 1:
                return f"{indent}y[0] = f64({self.number(3)})\n"
            case 2 | 3:
                return f"{indent}y[0] = 1.0 if {self.truth(2)} else 2.0\n"
            case 4:
                change = f"{chance.choice('+-*')}= {chance.choice(['1', '2', '100', '0.5'])}"
                loop = chance.choice(["range(1)", "range(2)"])
                return f"{indent}t = F\n{indent}for _ in {loop}:\n{indent}    t {change}\n{indent}y[0] = f64(t)\n"
            case _:
                return (
                    f"{indent}y[0] = 3.0\n{indent}for v in ({self.number(1)}, {self.any(0)}, {self.any(0)}):\n"
                    f"{indent}    if v {chance.choice(['==', '!=', 'is not'])} {self.any(1)}:\n"
                    f"{indent}        y[0] = 1.0\n"
                )


@dataclass
class Campaign:
    """What the calls of random kernels gave."""

    calls: int = 0
    refused: int = 0
    raised: int = 0
    failures: list[str] = field(default_factory=list)

    def run(self, seed: int, calls: int, stop_after: int = 1) -> None:
        """Runs kernels until there were so many calls, or failures."""
        with vyre.open("reference", cache=False):
            while self.calls < calls and len(self.failures) < stop_after:
                self.kernel(seed)
                seed += 1

    def kernel(self, seed: int) -> None:
        """Calls one random kernel, with a change before each further call."""
        world = World(seed)
        chance, names = world.chance, world.names
        writer = Writer(chance, ("c0", "c1", "s"))
        kind = chance.choice([int, float, bool])
        helper = "@vyre.function\ndef h{}(v, w=1, *, by=2):\n    return {}\n"
        text = HEAD + "".join(
            helper.format(
                n, chance.choice(["v + N0", "v * by + w", "ops.n - v", "v if v == N1 else w", "(v, by)[0] + by"])
            )
            for n in range(3)
        )
        text += (
            "def make(c0, c1):\n    @vyre.kernel\n"
            f"    def k(x: In[f32], s: Static[{kind.__name__}], y: Out[f64, (1,)]):\n"
            f"{writer.body()}    return k\n"
        )
        name = f"<captured {seed}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(text, name, "exec"), names)
            kernel = names["make"](world.number(), world.number())
            helpers = [names[f"h{n}"] for n in range(3)]
            cells = list(kernel.__wrapped__.__closure__ or ())
            for call in range(CALLS):
                if call:
                    world.change(kernel, helpers, cells)
                self.compare(kernel, world.static(kind), kind, f"seed {seed}, call {call}\n{text}")
        finally:
            linecache.cache.pop(name, None)

    def compare(self, kernel: Any, static: Any, kind: type, where: str) -> None:
        """Calls the kernel, and the function that it was made of; a whole number is a float where one is declared."""
        self.calls += 1
        x = np.zeros(1, np.float32)
        try:
            found: object = float(kernel(x, static)[0])
        except vyre.VyreError:
            self.refused += 1
            return
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        whole = kind is float and whole_number(static) is not None
        number = static[()] if isinstance(static, np.ndarray) else static
        expected = expected_of(kernel, float(number) if whole else number)
        if isinstance(expected, str):
            self.raised += 1
        same = (
            found == expected and math.copysign(1, expected) == math.copysign(1, found)
            if not (isinstance(found, str) or isinstance(expected, str))
            else False
        )
        both_nan = found != found and expected != expected
        if not same and not both_nan:
            self.failures.append(f"{where}\nstatic {static!r}: kernel {found!r}, Python {expected!r}")


def expected_of(kernel: Any, static: Any) -> float | str:
    """Returns what Python stores when it runs the function of a kernel, or the error that it raises."""
    function: FunctionType = kernel.__wrapped__
    code: CodeType = function.__code__
    twin = FunctionType(code, {**function.__globals__, "f64": float}, "k", None, function.__closure__)
    stored = [0.0]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            twin(Elements, static, stored)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return float(stored[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=1)
    chosen = parser.parse_args()
    campaign = Campaign()
    campaign.run(chosen.seed, chosen.calls, chosen.stop_after)
    for failure in campaign.failures:
        print(failure)
    print(f"{campaign.calls} cases: {campaign.refused} refused, {len(campaign.failures)} different")
    return bool(campaign.failures)


if __name__ == "__main__":
    sys.exit(main())
