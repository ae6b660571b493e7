"""``pass_kernel``: a function in the kernel language as a program, without the sessions that kernels of users have.

A session runs the passes, so that nothing here may import what opens one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from vyre.domain.cached import cached_property
from vyre.domain.frontend.definition import KernelDefinition
from vyre.domain.frontend.inlined import Inlined
from vyre.domain.ir.program import Program

_WORKGROUP: Final = (64, 1, 1)


class PassKernel:
    """A kernel of a pass; its program is made at the first use."""

    def __init__(self, function: FunctionType) -> None:
        self._definition = KernelDefinition(function, _WORKGROUP, {})

    @cached_property
    def program(self) -> Program:
        """The program."""
        return self._definition.specialized({}, {}).program


def pass_kernel(function: Callable[..., None]) -> PassKernel:
    """Makes a kernel of a Python function, with 64 lanes in a workgroup."""
    assert isinstance(function, FunctionType)
    return PassKernel(function)


def pass_function(function: Callable[..., Any]) -> Inlined[..., Any]:
    """Makes a function that kernels of passes may call."""
    return Inlined(function, {})
