"""All cases of the contract, in the order in which they run."""

from __future__ import annotations

from typing import Final

from vyre.testing.backend_contract.asynchronous import ASYNCHRONOUS
from vyre.testing.backend_contract.atomics import ATOMICS
from vyre.testing.backend_contract.case import Case
from vyre.testing.backend_contract.compiler import COMPILER
from vyre.testing.backend_contract.elements import ELEMENTS, INDICES, PRIVATE
from vyre.testing.backend_contract.flow import FLOW, TRAPS
from vyre.testing.backend_contract.foreign import FOREIGN, VIEWS
from vyre.testing.backend_contract.geometry import CONFIG, GEOMETRY
from vyre.testing.backend_contract.host_data import INPUTS, OUTPUTS
from vyre.testing.backend_contract.lifecycle import LIFECYCLE, METRICS, THREADS
from vyre.testing.backend_contract.memory import GATHERING, MEMORY
from vyre.testing.backend_contract.operators import NARROW, OPERATORS
from vyre.testing.backend_contract.parallel import GRID_LOOPS, PARALLEL
from vyre.testing.backend_contract.persistent import KEPT_STEPS, PERSISTENT
from vyre.testing.backend_contract.planning import COSTS, PLANNING, PREPARED
from vyre.testing.backend_contract.registration import CLAIMS, PROFILE, REGISTRATION
from vyre.testing.backend_contract.resident import BINDER, RESIDENT
from vyre.testing.backend_contract.rounds import ROUNDS, TILES

GROUPS: Final = (
    REGISTRATION,
    PROFILE,
    CLAIMS,
    OPERATORS,
    NARROW,
    ELEMENTS,
    INDICES,
    PRIVATE,
    FLOW,
    ATOMICS,
    PARALLEL,
    GRID_LOOPS,
    GEOMETRY,
    INPUTS,
    OUTPUTS,
    TRAPS,
    CONFIG,
    COMPILER,
    PREPARED,
    PLANNING,
    MEMORY,
    RESIDENT,
    ROUNDS,
    TILES,
    BINDER,
    VIEWS,
    FOREIGN,
    GATHERING,
    ASYNCHRONOUS,
    PERSISTENT,
    KEPT_STEPS,
    THREADS,
    LIFECYCLE,
    METRICS,
    COSTS,
)
CASES: Final[tuple[Case, ...]] = tuple(case for group in GROUPS for case in group.cases)
