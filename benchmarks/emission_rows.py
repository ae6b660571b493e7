"""Program object to PTX text, against LLVM and NVRTC on equivalent kernels.

``emit_*``: the program has been validated before, as in a session that compiles it for one more target or variant.
``emit_new_*``: a program object seen for the first time, so validation and hashing count too.  Theirs parse, optimise
and emit source text every time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from benchmarks import emission_rivals as rivals
from benchmarks import kernels
from benchmarks.harness import Metric, Row, Samples, compare
from vyre import Program
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import EmitOptions

LONG: Final = 10_000
_OPTIONS: Final = EmitOptions(target=rivals.TARGET)
_STATE: Final = "code of both sides warm, no emitted text cached"
# Size -> program, operations that any translation has to keep, and the sources of the rivals.
_KERNELS: Final[dict[str, tuple[Callable[[], Program], int, dict[str, str]]]] = {
    "50": (
        lambda: kernels.fifty_nodes(0),
        4,
        {"llvmlite": rivals.FIFTY_NODES_LLVM, "nvrtc": rivals.FIFTY_NODES_CUDA},
    ),
    "10k": (
        lambda: kernels.dependent_chain(LONG),
        LONG,
        {"llvmlite": rivals.chain_llvm(LONG), "nvrtc": rivals.chain_cuda(LONG)},
    ),
}


def _speedup(size: str, rival: str, *, seen: bool) -> Callable[[int], Samples]:
    def run(rounds: int) -> Samples:
        build, operations, sources = _KERNELS[size]
        program = build()
        source, compile_theirs = sources[rival], rivals.COMPILERS[rival]

        def ours() -> str:
            # A copy has none of the facts that validation and hashing leave behind in a program object.
            return emit(program if seen else replace(program), _OPTIONS).ptx

        for ptx in (ours(), compile_theirs(source)):
            assert _operations(ptx) >= operations, "operations of the kernel are missing in the text"
        return compare(ours, lambda: compile_theirs(source), rounds)

    return run


def _operations(ptx: str) -> int:
    """Multiplications and exclusive ors in the text."""
    return len(re.findall(r"^\s*(?:@!?%p\d+ )?(?:mul|xor|lop3)\.", ptx, re.MULTILINE))


ROWS: Final = tuple(
    Row(
        f"emit_{'' if seen else 'new_'}{size}_{rival}",
        Metric.SPEEDUP,
        f"x {rival}",
        10.0 if seen else 1.0,
        None if seen else 10.0,
        _speedup(size, rival, seen=seen),
        f"{_STATE}; program {'validated before' if seen else 'not seen before'}",
    )
    for seen in (True, False)
    for size in _KERNELS
    for rival in rivals.COMPILERS
)
