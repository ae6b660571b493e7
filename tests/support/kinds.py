"""One value of every kind, with which calls are tried that take only some of them."""

from __future__ import annotations

import inspect
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

import vyre
from support.small_programs import saxpy_program
from vyre.domain.errors import VyreError

_X: Final = np.arange(4, dtype=np.float32)


class Nothing:
    """An object that is good for nothing."""


# One value of every kind; a callable makes one anew.
KINDS: Final[dict[str, Any]] = {
    "none": None,
    "true": True,
    "false": False,
    "one": 1,
    "zero": 0,
    "negative": -1,
    "huge": 10**5000,
    "float": 1.5,
    "whole float": 1.0,
    "nan": float("nan"),
    "infinity": float("inf"),
    "complex": 1j,
    "decimal": Decimal(1),
    "fraction": Fraction(1, 2),
    "text": "text",
    "no text": "",
    "digits": "7",
    "surrogate": "\ud800",
    "null character": "\0",
    "bytes": b"bytes",
    "bytearray": bytearray(b"bytes"),
    "list": [1],
    "no list": [],
    "tuple": (1,),
    "no tuple": (),
    "tuple of texts": ("text",),
    "tuple of bools": (True,),
    "four": (1, 1, 1, 1),
    "nested": ([1],),
    "dict": {"text": 1},
    "no dict": {},
    "numbered": {1: 1},
    "dict of none": {"y": None},
    "dict of complex": {"k": 1j},
    "dict of lists": {"k": [1]},
    "dict of arrays": {"k": np.ones(1)},
    "dict of digits": {"k": "7"},
    "dict of bools": {"k": True, "y": True},
    "set": {1},
    "generator": lambda: (number for number in (1,)),
    "range": range(1),
    "function": lambda: len,
    "class": lambda: int,
    "object": Nothing,
    "ellipsis": ...,
    "path": Path("nowhere"),
    "numpy int": np.int64(1),
    "numpy float": np.float32(1),
    "numpy bool": np.True_,
    "numpy complex": np.complex64(1),
    "long double": np.longdouble(1),
    "array": np.ones(1, np.float32),
    "array without axes": np.array(1.0),
    "texts": np.array(["text"]),
    "masked": np.ma.masked_array(_X, _X < 2),
    "program": saxpy_program(),
    "config": vyre.DispatchConfig(),
    "type": vyre.f32,
    "numpy type": np.float32,
    "narrow numpy type": np.uint16,
    "dtype": np.dtype("<i4"),
    "big-endian dtype": np.dtype(">f4"),
    "structured dtype": np.dtype([("x", "<f4")]),
    "dtype of objects": np.dtype(object),
    "abstract numpy type": np.floating,
    "kind of error": VyreError,
}
NUMBERS: Final = {"one", "zero", "negative", "huge", "float", "whole float", "nan", "infinity"}
INTS: Final = {"one", "zero", "negative", "huge", "numpy int"}  # out of range is refused elsewhere
NUMPY_NUMBERS: Final = {"numpy int", "numpy float", "array without axes"}
TEXTS: Final = {"text", "no text", "digits", "surrogate", "null character"}
FLAGS: Final = {"true", "false"}
AXES: Final = {"one", "zero", "numpy int", "tuple"}
EMPTY: Final = {"no list", "no tuple", "no dict", "range"}
PATHS: Final = TEXTS | {"path"}
DICTS: Final = {kind for kind in KINDS if "dict" in kind or kind in ("none", "numbered")}
NUMPY_TYPES: Final = {"numpy type", "narrow numpy type", "abstract numpy type"}
CALLABLE: Final = {"function", "class", "type", "kind of error"} | NUMPY_TYPES


def made(kind: str) -> Any:
    """Returns the value of that kind, made anew where one cannot be used twice."""
    value = KINDS[kind]
    return value() if inspect.isfunction(value) or value is Nothing else value
