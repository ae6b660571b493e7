"""``emit`` returns a program as LLVM IR text, with everything that a launcher must know.

The text is a pure function of program, options and specialization values: the same input gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from vyre.adapters.cpu.llvm import phases
from vyre.adapters.cpu.llvm.captures import Capture
from vyre.adapters.cpu.llvm.context import CAPTURES, Kernel
from vyre.adapters.cpu.llvm.groups import Groups
from vyre.adapters.cpu.llvm.options import SUBGROUP, EmitOptions
from vyre.adapters.cpu.llvm.places import FIRST_METADATA, Places
from vyre.adapters.cpu.llvm.program_facts import can_join, most_runs, uses_subgroups
from vyre.domain.frozen import frozen
from vyre.domain.grid_sync import plan_grid_sync, plan_programs
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.validation.known import order_sensitive
from vyre.domain.validation.validator import check_rules
from vyre.policies.journal import DecisionSink

_NO_SPEC: Final[Mapping[str, Literal]] = {}
_DEFAULT: Final = EmitOptions()
ENTRY: Final = "vyre_kernel_"
"""The beginning of the name of each kernel's function."""
_PROBED: Final = '"probe-stack"="inline-asm"'
"""Kernels touch every page of a large frame in order: one beyond the end of the stack is a fault, not other memory."""


class EmittedKernel(NamedTuple):
    """A function of a module.

    ``entry`` is its symbol, ``scratch_bytes`` and ``captures`` what a thread must provide (``scratch_for``), and
    ``trap_tags`` the tags by their number.  ``bounded`` says how often a lane runs any one of its statements at most;
    None if that depends on the data.
    """

    entry: str
    scratch_bytes: int
    trap_tags: tuple[str, ...]
    bounded: int | None
    captures: tuple[Capture, ...] = ()


@frozen
class EmittedCode:
    """A program as one LLVM module: a kernel for each program of its plan of grid barriers, and vectors of ``lanes``
    lanes.
    """

    text: str
    kernels: tuple[EmittedKernel, ...]
    lanes: int

    def renamed(self, prefix: str) -> EmittedCode:
        """Returns the same code with other names of its functions, for objects that are linked with others."""
        kernels = tuple(k._replace(entry=k.entry.replace(ENTRY, prefix, 1)) for k in self.kernels)
        return EmittedCode(self.text.replace(f"@{ENTRY}", f"@{prefix}"), kernels, self.lanes)


def emit(
    program: Program,
    options: EmitOptions = _DEFAULT,
    spec: Mapping[str, Literal] = _NO_SPEC,
    sink: DecisionSink | None = None,
) -> EmittedCode:
    """Returns a module with one kernel for each program of the plan, in the order of ``plan_programs``.

    ``spec`` holds values of specialization constants; missing ones have their defaults.  ``sink`` receives the
    decisions.  Raises ``InvalidProgram`` with the report, and ``UnsupportedFeature``.
    """
    check_rules(program).raise_if_invalid()
    lanes = SUBGROUP if uses_subgroups(program) else options.lanes
    if options.joined and not can_join(program):
        raise AssertionError("the workgroups of this program cannot be joined")
    parts = plan_programs(plan_grid_sync(program))
    module: dict[str, None] = {}
    kernels: list[EmittedKernel] = []
    functions: list[str] = []
    for number, part in enumerate(parts):
        entry = f"{ENTRY}{number}"
        in_lockstep = math.prod(part.workgroup_size) > lanes and order_sensitive(program)
        k = Kernel(phases.split(part) if in_lockstep else part, options, spec, lanes, in_lockstep=in_lockstep)
        k.w.decisions = sink
        places = Places(k.w, entry, FIRST_METADATA + number) if options.located else None
        k.places = places
        Groups(k).write()
        described = places.finish() if places is not None else ""
        head = f"define void @{entry}(ptr %frame, i64 %begin, i64 %end, ptr %scratch) nounwind {_PROBED}{described} {{"
        module.update(k.w.module)
        behind = f"  {CAPTURES} = getelementptr i8, ptr %scratch, i64 {k.scratch.nbytes}\n" if k.captures else ""
        functions.append(f"{head}\nentry:\n{behind}{k.w.text()}\n}}\n")
        bounded, tags = most_runs(part.body, spec), tuple(k.trap_tags)
        kernels.append(EmittedKernel(entry, k.scratch.nbytes, tags, bounded, tuple(k.captures)))
    return EmittedCode("\n".join([*module, "", *functions]), tuple(kernels), lanes)
