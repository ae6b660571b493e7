"""Expressions of tinygrad with their answers by NumPy, of which ``record_kernels.py`` records the kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tinygrad import Tensor, dtypes

Array = Any
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")


class Expression(NamedTuple):
    """``made`` of tensors is ``answer`` of the arrays ``inputs``; values may differ by ``close`` of their size."""

    name: str
    inputs: list[Array]
    made: Callable[..., Tensor]
    answer: Callable[..., Array]
    close: float = 0.0


def drawn(seed: int, dtype: str, *shape: int, low: float = -4, high: float = 4) -> Array:
    """Returns values of a type between two bounds; unsigned ones are not negative, and all integers are small."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        return rng.integers(0 if dtype[0] == "u" else -100, 100, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def expressions() -> Iterator[Expression]:
    """Yields all of them."""
    yield from elementwise()
    yield from functions()
    yield from casts()
    yield from reductions()
    yield from movements()
    yield from products()
    yield from layers()
    yield from gradients()


def elementwise() -> Iterator[Expression]:
    of_all: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "less": lambda x, y: x < y,
        "equal": lambda x, y: x == y,
    }
    of_integers: dict[str, Callable[[Any, Any], Any]] = {
        "and": lambda x, y: x & y,
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
    }
    for number, dtype in enumerate((*INTEGERS, *FLOATS)):
        x, y = drawn(number, dtype, 3, 17), drawn(number + 50, dtype, 3, 17)
        for name, function in (of_all | (of_integers if dtype in INTEGERS else {})).items():
            yield Expression(f"{name}_{dtype}", [x, y], function, function)
        yield Expression(f"maximum_{dtype}", [x, y], lambda x, y: x.maximum(y), np.maximum)
        yield Expression(
            f"where_{dtype}", [x, y], lambda x, y: (x < y).where(x, 1), lambda x, y: np.where(x < y, x, np.ones_like(x))
        )
        if dtype in INTEGERS:
            divisor = np.where(y == 0, 3, y).astype(dtype)
            yield Expression(f"div_{dtype}", [x, divisor], lambda x, y: x.div(y, rounding_mode="trunc"), truncated)
            yield Expression(f"shift_{dtype}", [x], lambda x: x * 8 // 4 if x.dtype in dtypes.uints else x * 8, shifted)
        else:
            yield Expression(f"div_{dtype}", [x, y], lambda x, y: x / y, lambda x, y: x / y)
            yield Expression(
                f"chain_{dtype}", [x, y], lambda x, y: (x * y + x) * y - x, lambda x, y: (x * y + x) * y - x
            )
    p, q = drawn(1, "bool", 40), drawn(2, "bool", 40)
    for name, function in of_integers.items():
        yield Expression(f"{name}_bool", [p, q], function, function)
    yield Expression("not_bool", [p], lambda x: x.logical_not(), np.logical_not)


def truncated(x: Array, y: Array) -> Array:
    """Returns quotients of integers, rounded to zero."""
    quotients = [
        abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
    ]
    return np.array(quotients).astype(x.dtype).reshape(x.shape)


def shifted(x: Array) -> Array:
    return (x * x.dtype.type(8)) // x.dtype.type(4) if x.dtype.kind == "u" else x * x.dtype.type(8)


def functions() -> Iterator[Expression]:
    exact: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
        "neg": (lambda x: -x, np.negative),
        "sqrt": (lambda x: x.abs().sqrt(), lambda x: np.sqrt(np.abs(x))),
        "abs": (lambda x: x.abs(), np.abs),
        "sign": (lambda x: x.sign(), np.sign),
        "floor": (lambda x: x.floor(), np.floor),
        "ceil": (lambda x: x.ceil(), np.ceil),
        "trunc": (lambda x: x.trunc(), np.trunc),
        "round": (lambda x: x.round(), np.round),
        "relu": (lambda x: x.relu(), lambda x: np.maximum(x, x.dtype.type(0))),
        "clip": (lambda x: x.clip(-1, 2), lambda x: np.clip(x, x.dtype.type(-1), x.dtype.type(2))),
        "reciprocal": (lambda x: x.reciprocal(), lambda x: x.dtype.type(1) / x),
        "isnan": (lambda x: x.sqrt().isnan(), lambda x: np.isnan(np.sqrt(x))),
    }
    close: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
        "exp": (lambda x: x.exp(), np.exp),
        "exp2": (lambda x: x.exp2(), np.exp2),
        "log": (lambda x: x.abs().log(), lambda x: np.log(np.abs(x))),
        "log2": (lambda x: x.abs().log2(), lambda x: np.log2(np.abs(x))),
        "sin": (lambda x: x.sin(), np.sin),
        "cos": (lambda x: x.cos(), np.cos),
        "tan": (lambda x: x.tan(), np.tan),
        "tanh": (lambda x: x.tanh(), np.tanh),
        "sigmoid": (lambda x: x.sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
        "silu": (lambda x: x.silu(), lambda x: x / (1 + np.exp(-x))),
        "softplus": (lambda x: x.softplus(), lambda x: np.log1p(np.exp(x))),
        "elu": (lambda x: x.elu(), lambda x: np.where(x > 0, x, np.expm1(x))),
        "gelu": (lambda x: x.gelu(), lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))),
        "hardswish": (lambda x: x.hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6),
        "power": (lambda x: x.abs() ** 2.5, lambda x: np.abs(x) ** 2.5),
        "cube": (lambda x: x**3, lambda x: x**3),
    }
    for number, dtype in enumerate(FLOATS):
        x = drawn(number + 20, dtype, 5, 13)
        for name, (made, answer) in exact.items():
            yield Expression(f"{name}_{dtype}", [x], made, answer)
        tolerance = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-5}[dtype]
        for name, (made, answer) in close.items():
            yield Expression(
                f"{name}_{dtype}",
                [x],
                made,
                lambda x, answer=answer: answer(x.astype("float64")).astype(x.dtype),
                tolerance,
            )


def casts() -> Iterator[Expression]:
    types = ("bool", *INTEGERS, *FLOATS)
    for number, source in enumerate(types):
        for target in types[number % 2 :: 2]:
            if source != target:
                small = drawn(number + 90, source, 33, low=0, high=100)
                kept = np.abs(small) if source not in ("bool",) and target[0] == "u" else small
                yield Expression(
                    f"cast_{source}_{target}", [kept],
                    lambda x, target=target: x.cast(target), lambda x, target=target: x.astype(target),
                )  # fmt: skip
    for source, target in (
        ("float32", "int32"),
        ("uint16", "float16"),
        ("int64", "float64"),
        ("float32", "uint8"),
        ("uint8", "uint32"),
    ):
        x = drawn(3, source, 6, 8)
        yield Expression(
            f"bitcast_{source}_{target}", [x], lambda x, t=target: x.bitcast(t), lambda x, t=target: x.view(t)
        )


def reductions() -> Iterator[Expression]:
    for number, shape in enumerate(((6, 40), (3, 5, 7), (130,), (2, 64))):
        x, axis = drawn(number + 7, "float32", *shape), len(shape) - 1
        for name, made, answer in (
            ("sum", lambda x, a: x.sum(a), lambda x, a: x.sum(a)),
            ("max", lambda x, a: x.max(a), lambda x, a: x.max(a)),
            ("min", lambda x, a: x.min(a), lambda x, a: x.min(a)),
            ("mean", lambda x, a: x.mean(a), lambda x, a: x.mean(a)),
            ("var", lambda x, a: x.var(a), lambda x, a: x.var(a, ddof=1)),
            ("argmax", lambda x, a: x.argmax(a), lambda x, a: x.argmax(a).astype(np.int32)),
            ("cumsum", lambda x, a: x.cumsum(a), lambda x, a: x.cumsum(a)),
        ):
            for where in {0, axis}:
                yield Expression(
                    f"{name}{where}_" + "x".join(map(str, shape)), [x],
                    lambda x, made=made, a=where: made(x, a), lambda x, answer=answer, a=where: answer(x, a), 1e-4,
                )  # fmt: skip
    for dtype in (*INTEGERS, "float16", "float64"):
        x = drawn(31, dtype, 4, 9)
        close = 2e-2 if dtype == "float16" else 1e-12 if dtype == "float64" else 0
        yield Expression(
            f"sum_{dtype}", [x], lambda x: x.sum(1, dtype=x.dtype), lambda x: x.sum(1, dtype=x.dtype), close
        )
        yield Expression(f"max_{dtype}", [x], lambda x: x.max(0), lambda x: x.max(0))
    p = drawn(32, "bool", 5, 9)
    yield Expression("any", [p], lambda x: x.any(1), lambda x: x.any(1))
    yield Expression("all", [p], lambda x: x.all(0), lambda x: x.all(0))
    yield Expression("prod", [drawn(33, "float32", 4, 6)], lambda x: x.prod(1), lambda x: x.prod(1), 1e-5)
    yield Expression("sort", [drawn(34, "int32", 16)], lambda x: x.sort()[0], np.sort)


def movements() -> Iterator[Expression]:
    x, y = drawn(41, "float32", 4, 6), drawn(42, "float32", 4, 6)
    index = np.array([3, 0, 2], np.int32)
    cases: dict[str, tuple[list[Array], Callable[..., Any], Callable[..., Any]]] = {
        "pad": ([x], lambda x: x.pad(((1, 2), (0, 3))), lambda x: np.pad(x, ((1, 2), (0, 3)))),
        "flip": ([x], lambda x: x.flip(0), lambda x: x[::-1]),
        "transpose": ([x], lambda x: x.T, lambda x: x.T),
        "shrink": ([x], lambda x: x[1:3, 2:5], lambda x: x[1:3, 2:5]),
        "expand": ([x], lambda x: x.reshape(4, 1, 6).expand(4, 5, 6) + 1, lambda x: np.repeat(x[:, None], 5, 1) + 1),
        "roll": ([x], lambda x: x.roll(2, 1), lambda x: np.roll(x, 2, 1)),
        "tile": ([x], lambda x: x.repeat(2, 3), lambda x: np.tile(x, (2, 3))),
        "triu": ([x], lambda x: x.triu(), np.triu),
        "tril": ([x], lambda x: x.tril(-1), lambda x: np.tril(x, -1)),
        "stack": ([x, y], lambda x, y: x.stack(y), lambda x, y: np.stack([x, y])),
        "cat": ([x, y], lambda x, y: x.cat(y, dim=1), lambda x, y: np.concatenate([x, y], 1)),
        "rows": ([x, index], lambda x, i: x[i], lambda x, i: x[i]),
        "stride": ([x], lambda x: x[::2, ::-3], lambda x: x[::2, ::-3]),
        "eye": ([x], lambda x: x + Tensor.eye(4, 6), lambda x: x + np.eye(4, 6, dtype=np.float32)),
        "arange": ([x], lambda x: x + Tensor.arange(6), lambda x: x + np.arange(6, dtype=np.float32)),
        "one_hot": ([index], lambda i: i.one_hot(5), lambda i: np.eye(5, dtype=np.int32)[i]),
        "windows": ([x], lambda x: x.unfold(1, 3, 1) * 1, lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 1)),
    }
    for name, (inputs, made, answer) in cases.items():
        yield Expression(name, inputs, lambda *t, made=made: made(*t).contiguous(), answer)


def products() -> Iterator[Expression]:
    for m, k, n in ((4, 4, 4), (8, 16, 8), (1, 33, 7), (16, 32, 16), (5, 3, 9), (2, 64, 1)):
        for dtype in ("float32", "float64", "int32", "float16"):
            x, y = drawn(m, dtype, m, k, low=-1, high=1), drawn(n, dtype, k, n, low=-1, high=1)
            close = {"float32": 1e-4, "float64": 1e-12, "int32": 0, "float16": 3e-2}[dtype]
            if dtype in ("float32", "int32") or m == 8:
                yield Expression(f"matmul_{m}x{k}x{n}_{dtype}", [x, y], lambda x, y: x @ y, lambda x, y: x @ y, close)
    x, y = drawn(5, "float32", 3, 4, 5), drawn(6, "float32", 3, 5, 6)
    yield Expression("batched", [x, y], lambda x, y: x @ y, lambda x, y: x @ y, 1e-4)
    yield Expression("outer", [x[0, 0], y[0, 0]], lambda x, y: x.reshape(-1, 1) * y, np.outer)


def convolved(x: Array, w: Array, stride: int = 1) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), w.shape[2:], (2, 3))[
        :, :, ::stride, ::stride
    ]
    return np.einsum("ncijhw,ochw->noij", windows, w).astype(x.dtype)


def layers() -> Iterator[Expression]:
    x, w = drawn(61, "float32", 1, 2, 8, 8), drawn(62, "float32", 3, 2, 3, 3)
    yield Expression("conv", [x, w], lambda x, w: x.conv2d(w), convolved, 1e-4)
    yield Expression("conv_stride", [x, w], lambda x, w: x.conv2d(w, stride=2), lambda x, w: convolved(x, w, 2), 1e-4)
    padded = ((0, 0), (0, 0), (1, 1), (1, 1))
    yield Expression(
        "conv_pad", [x, w], lambda x, w: x.conv2d(w, padding=1), lambda x, w: convolved(np.pad(x, padded), w), 1e-4
    )
    yield Expression(
        "conv_relu", [x, w], lambda x, w: x.conv2d(w).relu() + 1, lambda x, w: np.maximum(convolved(x, w), 0) + 1, 1e-4
    )
    pooled = x.reshape(1, 2, 4, 2, 4, 2)
    yield Expression("max_pool", [x], lambda x: x.max_pool2d(2), lambda _: pooled.max((3, 5)))
    yield Expression("avg_pool", [x], lambda x: x.avg_pool2d(2), lambda _: pooled.mean((3, 5)), 1e-5)
    for shape in ((4, 10), (2, 3, 16), (1, 70)):
        y = drawn(63, "float32", *shape)

        def softmax(y: Array) -> Array:
            raised = np.exp(y.astype(np.float64) - y.max(-1, keepdims=True))
            return (raised / raised.sum(-1, keepdims=True)).astype(np.float32)

        def normalized(y: Array) -> Array:
            centred = y - y.mean(-1, keepdims=True)
            return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

        size = "x".join(map(str, shape))
        yield Expression(f"softmax_{size}", [y], lambda y: y.softmax(), softmax, 1e-4)
        yield Expression(f"log_softmax_{size}", [y], lambda y: y.log_softmax(), lambda y: np.log(softmax(y)), 1e-4)
        yield Expression(f"layernorm_{size}", [y], lambda y: y.layernorm(), normalized, 1e-3)
        yield Expression(f"logsumexp_{size}", [y], lambda y: y.logsumexp(-1), lambda y: np.log(np.exp(y).sum(-1)), 1e-4)
    q, k, v = (drawn(70 + i, "float32", 1, 6, 8) for i in range(3))

    def attention(q: Array, k: Array, v: Array) -> Array:
        raised = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(np.float32(8)))
        return raised / raised.sum(-1, keepdims=True) @ v

    yield Expression("attention", [q, k, v], lambda q, k, v: q.scaled_dot_product_attention(k, v), attention, 1e-3)


def gradients() -> Iterator[Expression]:
    def gradient(of: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *tensors: of(*tensors).sum().gradient(tensors[0])[0]

    x, w = drawn(81, "float32", 4, 6), drawn(82, "float32", 6, 5)
    ones = np.ones((4, 5), np.float32)
    yield Expression("of_matmul", [x, w], gradient(lambda x, w: x @ w), lambda x, w: ones @ w.T, 1e-4)
    yield Expression("of_relu", [x, w], gradient(lambda x, w: (x @ w).relu()), lambda x, w: (x @ w > 0) @ w.T, 1e-4)
    yield Expression("of_tanh", [x], gradient(lambda x: x.tanh()), lambda x: 1 - np.tanh(x) ** 2, 1e-3)
    yield Expression("of_square", [x], gradient(lambda x: x.square() * x), lambda x: 3 * x**2, 1e-4)
    yield Expression("of_exp", [x], gradient(lambda x: x.exp()), np.exp, 1e-4)
    yield Expression(
        "of_sigmoid", [x], gradient(lambda x: x.sigmoid()), lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2, 1e-3
    )
    yield Expression("of_log", [x], gradient(lambda x: x.abs().log()), lambda x: 1 / x, 1e-4)
    yield Expression(
        "of_max", [x], gradient(lambda x: x.max(1)), lambda x: (x == x.max(1, keepdims=True)).astype(x.dtype)
    )
    yield Expression(
        "of_mean",
        [x],
        gradient(lambda x: (x - x.mean(1, keepdim=True)).square()),
        lambda x: 2 * (x - x.mean(1, keepdims=True)),
        1e-3,
    )
