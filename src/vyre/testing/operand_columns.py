"""Rows of operands as the contents of input buffers."""

from __future__ import annotations

from collections.abc import Sequence

from vyre.domain.ir.types import ScalarType


def operand_columns(rows: Sequence[tuple[int, ...]], types: Sequence[ScalarType]) -> dict[str, bytes]:
    """Returns the bytes of buffers ``x0``, ``x1`` and so on, one for each operand of these types.

    A row has the bits of one value of each operand; the values of a buffer are in the order of the rows.
    """
    return {f"x{k}": b"".join([row[k].to_bytes(dtype.size, "little") for row in rows]) for k, dtype in enumerate(types)}
