"""The closed unions of values of expressions.  Each type of expression has the cheapest forms that are exact.

* u32: a Python int when all lanes agree, ``Affine`` when the value is a function of the position, else an array;
* i32, u64, i64: a NumPy scalar when all lanes agree, ``Affine`` when the value is a function of the position that does
  not wrap among the lanes, else an array;
* bool: a Python bool, a ``Split`` of the (box) context into boxes, or an array;
* floats: a NumPy scalar when all lanes agree, else an array.

Arrays have the shape of the context.  Uniform control flow needs no analysis: its condition evaluates to a bool.
"""

from __future__ import annotations

from typing import TypeAlias

from vyre.adapters.lanes.types import Dense, Lanes
from vyre.adapters.reference.vector.affine import Affine, Split

Word: TypeAlias = "int | Affine | Lanes"
Truth: TypeAlias = "bool | Split | Lanes"
Value: TypeAlias = "Word | Truth | Dense"
