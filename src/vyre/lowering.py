"""What a backend in another package needs besides the port: programs made ready for emission, launches, functions.

``vyre.ports`` has the facets of a backend, and ``vyre.ir`` the nodes of programs.  This module has what every backend
does between the two, so that none does it its own way:

- ``expanded``, ``with_constants`` and ``plan_grid_sync`` leave programs without calls, specialization constants, grid
  barriers and grid loops;
- ``lowered`` computes an operator of integers by others, for backends that have no rule of their own for it;
- ``plan_bindings`` and ``resolve_launch`` say which bytes a caller passes and how many workgroups run;
- ``refuse_unsupported`` raises for a field of a config that a backend does not honour;
- ``transcendental`` is a function such as ``exp`` as a list of steps, each exact or rounded once, which gives the
  reference's bits on every device with IEEE arithmetic in binary64;
- ``PipelineExecutor`` makes the facets ``executor`` and ``compiler`` from a function that compiles one program.

docs/new-backend.md shows them in use.  The names stay within a minor series, as those of ``vyre.ir`` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.adapters.pipelines import Compilation as Compilation, PipelineExecutor as PipelineExecutor
    from vyre.domain.binding import (
        Binding as Binding, BindingPlan as BindingPlan, plan_bindings as plan_bindings, BindingRole as BindingRole,
    )
    from vyre.domain.dialects.expansion import expanded as expanded
    from vyre.domain.dialects.laws.evaluation import Operators as Operators
    from vyre.domain.dialects.laws.lowered import lowered as lowered
    from vyre.domain.dialects.native_text import NativePlace as NativePlace, native_lines as native_lines
    from vyre.domain.dispatch import TimingQuality as TimingQuality, refuse_unsupported as refuse_unsupported
    from vyre.domain.geometry import LaunchLimits as LaunchLimits
    from vyre.domain.grid_sync import (
        Rounds as Rounds, Step as Step, grid_control as grid_control, plan_grid_sync as plan_grid_sync,
        plan_programs as plan_programs,
    )
    from vyre.domain.interface import resolve_launch as resolve_launch
    from vyre.domain.ir.bake import with_constants as with_constants
    from vyre.domain.ir.operators import TRANSCENDENTALS as TRANSCENDENTALS
    from vyre.domain.launch import Launch as Launch
    from vyre.domain.memory_ranges import check_alignment as check_alignment, check_overlap as check_overlap
    from vyre.domain.names import OpId as OpId
    from vyre.domain.numerics.f64_program import (
        Branch as Branch, F64Program as F64Program, Kind as Kind, Op as Op, Region as Region, Table as Table,
        F64Step as F64Step,
    )
    from vyre.domain.numerics.transcendentals import transcendental as transcendental
    from vyre.domain.op_ids import ALL_OPS as ALL_OPS, native_op as native_op, required_ops as required_ops
    from vyre.domain.scoped_names import ScopedNames as ScopedNames
    from vyre.domain.specialization import spec_literals as spec_literals
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__)
# isort: on
# fmt: on
