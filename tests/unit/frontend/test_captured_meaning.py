"""What Python says of captured things decides a kernel: of their equality and arithmetic, and anew at each call."""

from __future__ import annotations

import linecache
import math
import warnings
from collections import namedtuple
from collections.abc import Iterator
from enum import Enum, IntEnum, IntFlag, StrEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vyre
from vyre import In, KernelSourceError, Out, Static, f32, f64, i32, u32

FAST = "-".join(["fast", "math"])  # no constant of the compiler, so that an equal text is another object
U, V, A, B = np.uint8(200), np.uint8(100), np.uint32(3), np.uint32(5)
BIG, ONE, TENTH, FIFTH = np.float32(16777216), np.float32(1), np.float32(0.1), np.float64(0.2)


class Plain(Enum):
    A = 1


class Text(StrEnum):
    FAST = "fast-math"


class Flags(IntFlag):
    ONE = 1
    TWO = 2


class Equal(int):
    """A number that equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Callable:
    """An object that a kernel may name, with an equality of its own."""

    def __call__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


@pytest.fixture(autouse=True, scope="module")
def session() -> Iterator[None]:
    with vyre.open("reference", cache=False):
        yield


def made(text: str, **names: Any) -> Any:
    """Returns the kernel or function ``k`` of a text whose names mean these things."""
    file = f"<captured {len(linecache.cache)} {id(names)}>"
    head = "import vyre\nimport numpy as np\nfrom vyre import In, InOut, Out, Static, f32, f64, i32, u32, like\n"
    linecache.cache[file] = (len(head + text), None, (head + text).splitlines(keepends=True), file)
    exec(compile(head + text, file, "exec"), names)
    return names["k"]


def value_of(expression: str, **names: Any) -> float:
    """Returns what a kernel stores for an expression over captured things."""
    k = made(f"@vyre.kernel\ndef k(x: In[f32], y: Out[f64, (1,)]):\n    y[0] = f64({expression})\n", **names)
    return float(k(np.zeros(1, np.float32))[0])


# ---------------------------------------------------------------- equality
def test_texts_are_equal_by_value() -> None:
    @vyre.kernel
    def k(y: Out[u32, (4,)]) -> None:
        y[0] = 1 if FAST == "fast-math" else 2
        y[1] = 1 if FAST in ("slow", "fast-math") else 2
        y[2] = 1 if FAST != "fast-math" else 2
        y[3] = 1 if Text.FAST == FAST else 2

    assert k().tolist() == [1, 1, 2, 1]


@pytest.mark.parametrize(
    "expression",
    [
        "M == 'a'", "M == 1", "1 != M", "None == N", "N is None", "M is not None", "P == 1", "P.value == 1", "P is P",
        "T == (1, 'b')", "T != (1, 2)", "T < (2, 'a')", "'b' in T", "T[1] == 'b' != M", "1 in (T, 1)", "N in T",
        "'a' < M <= 'b'", "0.1 == F", "D == np.float32", "D == 'float32'", "np.float32 == D", "D in (np.int32, 'f4')",
        "np.float32 is np.float32", "np.float32 == np.float64", "f32 == f32", "True is (1 < 2)", "3 in range(2, 5)",
        "'as' in 'fast'", "Flags.ONE | 2 == 3", "~Flags.ONE", "M and 1", "0 or T[0]", "not M", "7 if P else 8",
    ],
)  # fmt: skip
def test_comparisons_of_known_things_are_those_of_python(expression: str) -> None:
    names = {"M": "a", "N": None, "P": Plain.A, "T": (1, "b"), "F": TENTH, "D": np.dtype("f4"), "Flags": Flags}
    expected = eval(expression, {**names, "np": np, "f32": f32})
    assert value_of(expression, **names) == float(expected)


def test_types_of_elements_equal_those_of_numpy() -> None:
    @vyre.kernel
    def k(x: In[f32], n: In[i32], y: Out[u32, (5,)]) -> None:
        y[0] = 1 if x.dtype == np.float32 else 2
        y[1] = 1 if n.dtype == "int32" and n.dtype != np.dtype("f4") else 2
        y[2] = 1 if x.dtype in (np.float64, np.float32) else 2
        y[3] = 1 if np.int64 == n.dtype else 2
        y[4] = 1 if x.dtype == f32 and x.dtype is f32 else 2

    assert k(np.zeros(1, np.float32), np.zeros(1, np.int32)).tolist() == [1, 1, 1, 2, 1]


@pytest.mark.parametrize(
    "expression",
    [
        "N is M",
        "x.dtype is D",
        "f32 == np.float32",
        "E == 3",
        "nan in (nan, 1.0)",
        "N < 'a'",
        "G == G",
        "K",
        "C + 1",
    ],
)
def test_what_only_identity_or_code_of_the_user_decides_is_refused(expression: str) -> None:
    names = {"N": 1000, "M": 1001, "D": np.dtype("f4"), "E": Equal(4), "nan": math.nan, "G": Callable()}
    with pytest.raises(KernelSourceError):
        value_of(expression, **names, K=np.longdouble(1), C=np.complex64(1))


# ---------------------------------------------------------------- arithmetic
@pytest.mark.parametrize(
    "expression",
    [
        "(BIG + ONE) - BIG", "A - B", "A - B > 0", "TENTH == 0.1", "U + V", "U + V > 255", "TENTH + FIFTH", "U * 2",
        "-A", "~U", "U << 1", "U >> 9", "A // 2", "-A // B", "A % 2", "A ** 40", "BIG / 3", "7 // TENTH", "U & 15 | 64",
        "min(U, 300)", "max(TENTH, 0.1)", "abs(H)", "round(TENTH)", "int(BIG)",
        "divmod(U, 7)[1]",        "float(TENTH)", "np.sqrt(TENTH)", "A / B", "H // Z", "W + L", "True + A",
        "np.bool_ == bool", "U == 456",
        "(A, B)[1] - 6",
    ],
)  # fmt: skip
def test_numbers_of_numpy_compute_in_their_types(expression: str) -> None:
    names: dict[str, Any] = {"U": U, "V": V, "A": A, "B": B, "BIG": BIG, "ONE": ONE, "TENTH": TENTH, "FIFTH": FIFTH}
    names |= {"H": np.int8(-128), "Z": np.int8(0), "W": np.uint64(2**63), "L": np.int64(-1)}
    with np.errstate(all="ignore"):
        expected = float(eval(expression, {**names, "np": np}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value_of(expression, **names) == expected


def test_they_keep_their_types_in_variables_tuples_closures_and_static_arguments() -> None:
    inner, pair = np.uint8(250), (np.uint8(10), np.float32(0.1))

    @vyre.kernel
    def k(s: Static[int], y: Out[f64, (4,)]) -> None:
        total = TENTH + FIFTH
        for _ in range(1):
            total += 0.0
        y[0] = f64(total)
        y[1] = f64(inner + pair[0])
        y[2] = f64(s + 100)
        for one in (pair[1], FIFTH):
            if one == 0.2:
                y[3] = f64(one + 1)

    expected = [float(TENTH + FIFTH), 4.0, 44.0, float(FIFTH + 1)]
    assert k(np.uint8(200)).tolist() == expected
    assert k(200).tolist() == [*expected[:2], 300.0, expected[3]]


def test_a_variable_that_starts_in_a_narrow_type_is_not_computed_in_a_wider_one() -> None:
    @vyre.kernel
    def k(y: Out[f64, (1,)]) -> None:
        v = U
        for _ in range(2):
            v += 100
        y[0] = f64(v)

    with pytest.raises(KernelSourceError, match="in the narrow type"):
        k()


# ---------------------------------------------------------------- read again
def reaching() -> tuple[Any, dict[str, Any]]:
    """Returns a kernel that reaches things by attributes, and the names of its module."""
    ops, pair = ModuleType("ops"), namedtuple("pair", "n")
    ops.__dict__.update(pick=vyre.min_, sub=ModuleType("sub"))
    ops.__dict__["sub"].n = 10
    held = type("Held", (), {"n": 1, "f": staticmethod(vyre.max_)})
    names: dict[str, Any] = {"ops": ops, "Held": held, "ns": SimpleNamespace(inner=SimpleNamespace(n=2)), "obj": held()}
    names |= {"pair": pair(5), "K": np.array(0.0), "T": (np.array(0.0),), "G": 3}
    text = """
@vyre.function
def h(v, w=1, *, by=0):
    return v + G + w + by
@vyre.kernel
def k(x: In[i32], y: Out[i32, like("x")]):
    y[0] = ops.pick(x[0], 5) + ops.sub.n + Held.f(Held.n, ns.inner.n) + obj.n + pair.n + i32(K + T[0])
    y[0] += min(h(x[0]), 1000)
"""
    return made(text, **names), names


def test_each_step_of_an_attribute_is_read_again_at_each_call() -> None:
    k, _ = reaching()
    names = k.__wrapped__.__globals__
    x = np.array([7], np.int32)
    total = 5 + 10 + 2 + 1 + 5 + 0 + 11
    assert k(x)[0] == total
    sub = ModuleType("sub")
    sub.__dict__["n"] = 20

    def pick() -> None:
        names["ops"].pick = vyre.max_

    def shadow() -> None:
        names["min"] = max

    def fill(array: Any) -> None:
        array[...] = 100

    helper = names["h"].function
    changes = [
        (pick, 2),
        (lambda: setattr(names["ops"], "sub", sub), 10),
        (lambda: setattr(names["Held"], "n", 4), 2 + 3),
        (lambda: setattr(names["Held"], "f", staticmethod(vyre.min_)), -2),
        (lambda: setattr(names["ns"], "inner", SimpleNamespace(n=1)), -1),
        (lambda: setattr(names["obj"], "n", 6), 2),
        (lambda: names.update(pair=type(names["pair"])(6)), 1),
        (lambda: fill(names["K"]), 100),
        (lambda: fill(names["T"][0]), 100),
        (lambda: names.update(G=13), 10),
        (lambda: setattr(helper, "__defaults__", (2,)), 1),
        (lambda: helper.__kwdefaults__.update(by=5), 5),
        (shadow, 1000 - 7 - 13 - 2 - 5),
    ]
    for change, difference in changes:
        change()
        total += difference
        assert k(x)[0] == total and k(x)[0] == total


def test_other_code_of_a_function_is_read_again() -> None:
    k = made("""
@vyre.function
def h(v):
    return v + 1
@vyre.function
def other(v):
    return v * 10
@vyre.kernel
def k(x: In[i32], y: Out[i32, like("x")]):
    y[0] = h(x[0])
""")
    x, names = np.array([7], np.int32), k.__wrapped__.__globals__
    assert k(x)[0] == 8
    names["h"].function.__code__ = names["other"].function.__code__
    assert k(x)[0] == 70
    k.__wrapped__.__code__ = made("def k(x, y):\n    y[0] = x[0]\n").__code__
    with pytest.raises(KernelSourceError, match="has got other code since it became a kernel"):
        k(x)


def test_an_array_without_axes_gets_no_other_name() -> None:
    k = made("@vyre.kernel\ndef k(y: Out[f64, 1]):\n    t = K\n    t += 1.0\n    y[0] = t\n", K=np.array(0.25))
    with pytest.raises(KernelSourceError, match="gets another name, by which it may be changed"):
        k()


def test_attributes_that_code_computes_are_refused() -> None:
    class Computed:
        @property
        def n(self) -> int:
            return 3

        def method(self) -> int:
            return 4

    for expression in ("obj.n", "obj.method", "obj.missing"):
        with pytest.raises(KernelSourceError, match="has no attribute"):
            value_of(expression, obj=Computed())


def test_private_names_are_those_of_the_class() -> None:
    k = made("""
_Owner__scale = 3
class _Owner:
    __own = 4
    @staticmethod
    @vyre.kernel
    def k(__x: In[u32], y: Out[u32, (1,)]):
        __t = __x[0] * __scale
        y[0] = __t + _Owner.__own
k = _Owner.k
""")
    assert k(np.array([5], np.uint32)).tolist() == [19]


# ---------------------------------------------------------------- Static arguments
class Op(IntEnum):
    ADD = 1
    MUL = 2

    def __repr__(self) -> str:
        return "<Op>"


class Other(IntEnum):
    ADD = 1


def test_static_arguments_are_told_apart_by_type_and_bits() -> None:
    @vyre.kernel
    def whole(v: Static[int], y: Out[u32, (2,)]) -> None:
        y[0] = v
        y[1] = 1 if v is Op.ADD else 2

    @vyre.kernel
    def real(v: Static[float], y: Out[f64, 1]) -> None:
        y[0] = v

    found = [whole(one).tolist() for one in (Op.ADD, Op.MUL, Other.ADD, np.int64(1), np.array(2))]
    assert found == [[1, 1], [2, 2], [1, 2], [1, 2], [2, 2]]
    near, nan = (np.array(0.1234567890123), np.array(0.1234567890999)), math.nan
    assert [real(one)[0] for one in near] == [float(one) for one in near]
    assert [math.copysign(1, real(one)[0]) for one in (0.0, -0.0, np.float64(-0.0))] == [1, -1, -1]
    assert math.isnan(real(nan)[0]) and real(np.float32(0.1))[0] == float(np.float32(0.1))
    for wrong in (object(), (1,), "1", Equal(1), True):
        with pytest.raises((vyre.InvalidInput, KernelSourceError)):
            whole(wrong)
