"""The kernel for Triton, which reads the source of this file."""

# Triton's decorator and language have no types.
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def saxpy(x, y, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(y + i, a * tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)
