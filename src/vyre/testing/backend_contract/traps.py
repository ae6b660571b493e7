"""Cases of traps: which lane is named, and what state remains."""

from __future__ import annotations

from typing import Final

from vyre.domain.errors import TrapError
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal
from vyre.testing.backend_contract.programs import add_programs

TRAPS: Final = Group("traps", "supports_trap_propagation")
add_programs(TRAPS)


_CHECKED: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body {
      if gid.x < len(x) {
        if x[gid.x] == 0u { trap(gid.x, "zero") }
        x[gid.x] = 100u / x[gid.x]
      }
    }
    """


@TRAPS.case()
def a_dispatch_after_a_trap_is_clean(bench: Bench) -> None:
    """A trap leaves no state: the same program runs on other data, and traps again."""
    for _ in range(3):
        error = bench.refuses(TrapError, _CHECKED, words(1, 0, 4, 0))
        equal((error.address, error.global_id), (1, (1, 0, 0)), "what trapped")
        equal(bench.words(_CHECKED, words(2, 4)), [50, 25])
