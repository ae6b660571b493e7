"""The emitter's result: text, and everything that a launcher must know."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from vyre.domain.frozen import frozen
from vyre.domain.names import Dim3

FORMAT: Final = 1


class ParameterKind(Enum):
    """The kind of a kernel parameter.

    POINTER and COUNT belong to a binding.  UNIFORM holds a small buffer's bytes.  SCALAR holds a scalar of the program,
    or a word of the emitter's own.  GRID is the number of workgroups along the axis ``value``.  TRAP,
    BARRIER, SCRATCH, TABLE and MAILBOX are pointers to memory that the launcher provides.
    """

    POINTER = "pointer"
    COUNT = "count"
    UNIFORM = "uniform"
    SCALAR = "scalar"
    GRID = "grid"
    TRAP = "trap"
    BARRIER = "barrier"
    SCRATCH = "scratch"
    TABLE = "table"
    MAILBOX = "mailbox"


class Init(Enum):
    """The content of a buffer before the launch: the caller's bytes, or zeros."""

    INPUT = "input"
    ZERO = "zero"


class Assumption(Enum):
    """A launch-time fact that a variant of a kernel relies on.

    ALIGNED16: every binding starts at a multiple of 16 bytes.  NOALIAS: no written binding overlaps another one.
    EXACT_GRID: the grid has exactly as many lanes as the launch covers elements.
    """

    ALIGNED16 = "aligned16"
    NOALIAS = "noalias"
    EXACT_GRID = "exact-grid"


@frozen
class Parameter:
    """One entry of the kernel's parameter list.

    ``offset``, ``size`` and ``align`` are bytes in parameter space.  ``nbytes`` is the size of the memory that a TRAP,
    BARRIER, SCRATCH, TABLE or MAILBOX parameter points to; ``value`` is the value of a word of the emitter's own.
    """

    kind: ParameterKind
    offset: int
    size: int
    align: int
    name: str | None = None
    binding: int | None = None
    dtype: str | None = None
    init: Init | None = None
    nbytes: int | None = None
    value: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the parameter as an object of the document of ``vyre emit --json``."""
        out: dict[str, Any] = {
            "kind": self.kind.value,
            "name": self.name,
            "binding": self.binding,
            "dtype": self.dtype,
            "offset": self.offset,
            "size": self.size,
            "align": self.align,
        }
        optional = {"init": self.init and self.init.value, "bytes": self.nbytes, "value": self.value}
        return out | {key: value for key, value in optional.items() if value is not None}


@frozen
class EmittedKernel:
    """One entry.  Shared sizes are in bytes; word 2 of the trap record is a 1-based index into ``trap_tags``."""

    entry: str
    block: Dim3
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    shared_static: int
    shared_dynamic: int
    cooperative: bool
    assumes: tuple[Assumption, ...]
    trap_tags: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the kernel as an object of the document of ``vyre emit --json``."""
        return {
            "entry": self.entry,
            "block": list(self.block),
            "params": [parameter.to_json() for parameter in self.parameters],
            "param_bytes": self.parameter_bytes,
            "shared_static": self.shared_static,
            "shared_dynamic": self.shared_dynamic,
            "cooperative": self.cooperative,
            "assumes": [assumption.value for assumption in self.assumes],
            "trap_tags": list(self.trap_tags),
        }


@frozen
class EmittedModule:
    """PTX text (without NUL) and its entries.

    The kernels are launched in this order on one stream with the same grid and buffers.
    """

    ptx: str
    target: str
    version: str
    kernels: tuple[EmittedKernel, ...]

    @property
    def text(self) -> str:
        """Returns the PTX text."""
        return self.ptx

    def to_json(self) -> dict[str, Any]:
        """Returns the document of ``vyre emit --json``: the first kernel's keys are repeated at the top level."""
        kernels = [kernel.to_json() for kernel in self.kernels]
        return {
            "format": FORMAT,
            "ptx": self.ptx,
            "target": self.target,
            "version": self.version,
            "kernels": kernels,
            **kernels[0],
        }
