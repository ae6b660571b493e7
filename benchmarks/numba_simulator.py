"""saxpy in numba's CUDA simulator: one timed launch for each line read, the seconds as JSON on a line.

Run as a script, with ``NUMBA_ENABLE_CUDASIM=1`` and the number of lanes as its argument.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from numba import cuda


@cuda.jit
def saxpy(a, x, y, y2):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)  # type: ignore[attr-defined]
    if i < x.shape[0]:
        y2[i] = a * x[i] + y[i]


def main() -> None:
    lanes = int(sys.argv[1])
    a, x, y = np.float32(2.5), np.arange(lanes, dtype=np.float32), np.ones(lanes, np.float32)
    y2 = np.zeros_like(y)
    saxpy[lanes // 256, 256](a, x, y, y2)
    if not np.array_equal(y2, a * x + y):
        raise AssertionError("the simulator computes something else")
    for _ in sys.stdin:
        start = time.perf_counter()
        saxpy[lanes // 256, 256](a, x, y, y2)
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
