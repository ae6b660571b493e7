"""Loading PTX text: parsed, checked and compiled for the lanes of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.memory import DeviceMemory
    from vyre.adapters.cuda.seam import DeviceAddress
    from vyre.domain.ir.program import Dim3


class MachineEntry(NamedTuple):
    """A kernel.  ``parameters`` are (offset, bytes) in declaration order, ``parameter_bytes`` their extent.
    ``required_block`` is its ``.reqntid``.  Shared sizes in bytes; ``registers`` counts 32-bit registers."""

    name: str
    parameters: tuple[tuple[int, int], ...]
    parameter_bytes: int
    required_block: Dim3 | None
    static_shared: int
    uses_dynamic_shared: bool
    registers: int
    code: Any


class LoadedModule(NamedTuple):
    """A module whose variables lie in device memory: ``entries`` can run, ``variables`` are to be freed."""

    entries: Mapping[str, MachineEntry]
    variables: tuple[DeviceAddress, ...]


class MachineModule(NamedTuple):
    """A checked module.  ``version`` is (major, minor) of the PTX; ``target`` as written (``sm_90``)."""

    version: tuple[int, int]
    target: str
    entries: Mapping[str, MachineEntry]

    def instantiate(self, memory: DeviceMemory) -> LoadedModule:
        """Place the module's variables in ``memory`` and bind the entries to them."""
        raise NotImplementedError


def load_module(text: str) -> MachineModule:
    """The module of a PTX text.  Raises ``PtxError`` naming the line."""
    raise NotImplementedError
