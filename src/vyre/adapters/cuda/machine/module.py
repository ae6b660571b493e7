"""Loading PTX text: it is parsed, checked and compiled for the lanes of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from vyre.adapters.cuda.machine.compilation import Code, compile_entry
from vyre.adapters.cuda.machine.faults import PtxError
from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.operands import Symbol
from vyre.adapters.cuda.machine.ptx_syntax import SIZE_OF, EntryText, Variable, parse
from vyre.adapters.cuda.seam import DeviceAddress
from vyre.domain.names import Dim3

_PARAMETER_LIMIT: Final = 4352
_LARGE_PARAMETER_LIMIT: Final = 32764
_LARGE_SINCE: Final = (8, 1)
_SHARED_LIMIT: Final = 48 << 10
_LOCAL_LIMIT: Final = 512 << 10
_VARIABLES_LIMIT: Final = 64 << 20
"""Bytes of all variables of a module, which are placed when it is loaded."""
_CACHED_MODULES: Final = 32


class MachineEntry(NamedTuple):
    """A kernel.

    ``parameters`` are (offset, bytes) in declaration order; ``parameter_bytes`` is their extent.  ``required_block`` is
    its ``.reqntid``.  Shared sizes are in bytes; ``registers`` counts 32-bit registers.
    """

    name: str
    parameters: tuple[tuple[int, int], ...]
    parameter_bytes: int
    required_block: Dim3 | None
    static_shared: int
    registers: int
    code: Code


class LoadedModule(NamedTuple):
    """A module whose variables lie in device memory: ``entries`` can run, and ``variables`` must be freed."""

    entries: Mapping[str, MachineEntry]
    variables: tuple[DeviceAddress, ...]


class MachineModule(NamedTuple):
    """A checked module.  ``version`` is (major, minor) of the PTX; ``target`` is as written (``sm_90``)."""

    version: tuple[int, int]
    target: str
    entries: Mapping[str, MachineEntry]
    variables: tuple[Variable, ...] = ()

    def instantiate(self, memory: DeviceMemory) -> LoadedModule:
        """Places the module's variables in ``memory`` and binds the entries to them."""
        addresses = {variable.name: _place(variable, memory) for variable in self.variables}
        bound = {
            name: entry._replace(code=entry.code.bound(addresses)) if addresses else entry
            for name, entry in self.entries.items()
        }
        return LoadedModule(bound, tuple(addresses.values()))


def _place(variable: Variable, memory: DeviceMemory) -> DeviceAddress:
    """Places a variable in memory; elements without a value are zero."""
    dtype = LANE_DTYPE[variable.type]
    count = variable.length or 0
    address = memory.allocate(max(1, count * dtype.itemsize))
    values = np.zeros(count, f"u{dtype.itemsize}")
    mask = (1 << 8 * dtype.itemsize) - 1
    values[: len(variable.values)] = [value & mask for value in variable.values]
    memory.write(address, values.tobytes())
    return address


@lru_cache(maxsize=_CACHED_MODULES)
def load_module(text: str) -> MachineModule:
    """Returns the module of a PTX text.  Raises ``PtxError`` with the line."""
    module = parse(text)
    symbols: dict[str, Symbol] = {}
    placed: list[Variable] = []
    dynamic: Variable | None = None
    for variable in module.variables:
        if variable.name in symbols:
            raise PtxError(variable.line, f"{variable.name} is declared twice")
        if variable.space == "shared":
            if variable.length is not None:
                raise PtxError(variable.line, "only dynamic shared memory is declared outside an entry")
            dynamic = variable
        elif variable.space in ("global", "const") and variable.length is not None:
            if len(variable.values) > variable.length:
                raise PtxError(variable.line, f"{variable.name} has more values than elements")
            placed.append(variable)
        else:
            raise PtxError(variable.line, f"{variable.name} cannot be declared here")
        symbols[variable.name] = Symbol(variable.space, None)
    entries: dict[str, MachineEntry] = {}
    if _layout(tuple(placed))[1] > _VARIABLES_LIMIT:
        raise PtxError(placed[-1].line, f"the variables take more than {_VARIABLES_LIMIT} bytes")
    limit = _LARGE_PARAMETER_LIMIT if module.version >= _LARGE_SINCE else _PARAMETER_LIMIT
    for entry in module.entries:
        if entry.name in entries:
            raise PtxError(entry.line, f"entry {entry.name} is defined twice")
        entries[entry.name] = _entry(entry, symbols, dynamic, limit)
    return MachineModule(module.version, module.target, entries, tuple(placed))


def _entry(entry: EntryText, module_symbols: dict[str, Symbol], dynamic: Variable | None, limit: int) -> MachineEntry:
    symbols = dict(module_symbols)

    def declare(variable: Variable, space: str, offset: int) -> None:
        if variable.name in symbols:
            raise PtxError(variable.line, f"{variable.name} is declared twice")
        symbols[variable.name] = Symbol(space, offset)

    parameters, parameter_bytes = _layout(entry.parameters)
    if parameter_bytes > limit:
        raise PtxError(entry.line, f"{parameter_bytes} bytes of parameters; at most {limit}")
    for variable, (offset, _) in zip(entry.parameters, parameters, strict=True):
        declare(variable, "param", offset)
    sizes = {}
    for space in ("shared", "local"):
        variables = tuple(variable for variable in entry.variables if variable.space == space)
        places, sizes[space] = _layout(variables)
        for variable, (offset, _) in zip(variables, places, strict=True):
            declare(variable, space, offset)
    shared = sizes["shared"]
    if shared > _SHARED_LIMIT:
        raise PtxError(entry.line, f"{shared} bytes of shared memory; at most {_SHARED_LIMIT}")
    if sizes["local"] > _LOCAL_LIMIT:
        raise PtxError(entry.line, f"{sizes['local']} bytes of local memory; at most {_LOCAL_LIMIT}")
    dynamic_offset = shared
    if dynamic is not None:
        dynamic_offset = _aligned(shared, dynamic.align)
        symbols[dynamic.name] = Symbol("shared", dynamic_offset)
    code = compile_entry(entry, symbols, parameter_bytes, dynamic_offset, _aligned(sizes["local"], 16))
    words = sum(0 if kind == "pred" else max(1, SIZE_OF[kind] // 4) for kind in entry.registers.values())
    return MachineEntry(entry.name, parameters, parameter_bytes, entry.required_block, shared, words, code)


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _layout(variables: tuple[Variable, ...]) -> tuple[tuple[tuple[int, int], ...], int]:
    """Returns (offset, bytes) of variables that follow each other, naturally aligned, and the end of the last one."""
    places: list[tuple[int, int]] = []
    end = 0
    for variable in variables:
        if variable.length is None:
            raise PtxError(variable.line, f"{variable.name} has no size")
        size = SIZE_OF[variable.type] * variable.length
        start = _aligned(end, variable.align)
        places.append((start, size))
        end = start + size
    return tuple(places), end
