"""Runs tinylang as an installed package and checks what it computes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from tinylang import Compiler
from tinylang.backend import CALLS

import vyre


def main() -> None:
    a, b = np.arange(5, dtype=np.float32), np.full(5, 0.5, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):  # the second compiler reads the first one's cache
            with Compiler(Path(folder), "counting") as compiler:
                found = compiler.evaluate("a * b + 2 * a", {"a": a, "b": b})
                np.testing.assert_array_equal(found, a * b + np.float32(2) * a)
                assert compiler.backend == "counting"
                try:
                    compiler.evaluate("a * b + 2 * a", {"a": a})
                except vyre.InvalidInput as error:
                    assert "`b` is missing" in error.message
                else:
                    raise AssertionError("a missing array must be refused")
    assert CALLS.names.count("pipeline.dispatch") == 2
    counted = vyre.DispatchConfig(extent=(np.int64(5), np.uint32(1)), output_counts={"y": np.int64(5)})
    assert (counted.extent, counted.output_counts) == ((5, 1), {"y": 5})  # sizes may be numbers of NumPy
    print(f"tinylang on vyre {vyre.__version__}: ok")


if __name__ == "__main__":
    main()
