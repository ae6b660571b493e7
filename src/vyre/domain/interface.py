"""The interface of a program, and the launches that follow from it."""

from __future__ import annotations

from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.geometry import LaunchLimits
from vyre.domain.ir.expr import Atomic
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.launch import Interface, Launch, launch_of


def interface_of(program: Program) -> Interface:
    """Returns the interface of ``program``, cached on it.  Raises the errors of ``plan_bindings``."""
    cached = program._cache.get("interface")
    if isinstance(cached, Interface):
        return cached
    plan = plan_bindings(program)
    interface = Interface(plan, program.workgroup_size, bool(plan.shared) or uses_atomics(program))
    program._cache["interface"] = interface
    return interface


def resolve_launch(
    program: Program, input_nbytes: tuple[int, ...], config: DispatchConfig, limits: LaunchLimits
) -> Launch:
    """Returns the launch of a valid program.  Raises the errors of ``launch_of``."""
    return launch_of(interface_of(program), input_nbytes, config, limits)


def uses_atomics(program: Program) -> bool:
    """Returns whether any expression is an atomic; cached on the program."""
    return Atomic in node_facts(program).types
