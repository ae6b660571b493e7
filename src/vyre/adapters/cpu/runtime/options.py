"""The options of the native CPU backend, and its limits."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Annotated, Final, Literal

from vyre.domain.errors import InvalidField
from vyre.domain.host_options import MOST_THREADS
from vyre.domain.names import Dim3
from vyre.domain.record import U32_MAX, Count, IntRange, record

if TYPE_CHECKING:
    from vyre.domain.launch_costs import LaunchCosts
else:
    LaunchCosts = object  # what it is, is checked where there is one: few callers give costs

MAX_LANES: Final = 1 << 15
MAX_WORKGROUP: Final[Dim3] = (MAX_LANES, MAX_LANES, MAX_LANES)
MAX_GRID: Final[Dim3] = (U32_MAX, U32_MAX, U32_MAX)


@record
class CpuOptions:
    """Options of the native CPU backend.

    ``threads``: most threads that take part in a launch, None for the lesser of the usable CPUs and the CPU quota.
    ``affinity``: the CPUs on which worker threads run, None for all that the process may use.  ``lanes``: lanes of a
    vector, one of 1, 4, 8, 16 and 32; None for what suits the processor and the program.  ``list_after``: runs of one
    shape after which its operations are run as a command list by one native call; "costs": when that pays; None: never.
    A list is made as quickly as the single operations, so that the first run makes it if nothing else is asked for.
    ``vector_bits``: code uses no vector register of more bits, None for all that the processor has.
    ``recompile``: whether kernels that run long are compiled again with full effort, in the background.
    """

    _: KW_ONLY
    threads: Annotated[int, IntRange(1, MOST_THREADS)] | None = None
    affinity: frozenset[int] | None = None
    lanes: Annotated[int, IntRange(1, 32)] | None = None
    vector_bits: Annotated[int, IntRange(128, 512)] | None = None
    list_after: Count | Literal["costs"] | None = 0
    costs: LaunchCosts | None = None
    recompile: bool = True

    def __post_init__(self) -> None:
        if self.costs is not None:
            from vyre.domain.launch_costs import LaunchCosts

            if not isinstance(self.costs, LaunchCosts):
                raise InvalidField(record="CpuOptions", field="costs", value=self.costs, expected="a LaunchCosts")
