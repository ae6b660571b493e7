"""``Launcher``: a kernel with a grid, as ``kernel[grid]`` and ``kernel.over(extent)`` make it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias

from vyre.domain.ir.program import Program, ProgramSource

if TYPE_CHECKING:
    from vyre.app.kernels.kernel import Kernel
    from vyre.app.pipeline import Argument

P = ParamSpec("P")
Launch: TypeAlias = tuple[tuple[int, ...] | None, tuple[int, ...] | None]
"""The workgroups or the lanes along each axis, one of which is given."""


class Launcher(ProgramSource, Generic[P]):
    """A kernel with a number of workgroups or of lanes.

    Call it with the arguments of the kernel, or pass it to a session where a kernel is wanted: its launches have that
    number, and a method that gets another one raises ``InvalidConfig``.  Functions that launch nothing, such as
    ``vyre.emit``, take its program.
    """

    __slots__ = ("_kernel", "_launch")

    def __init__(self, kernel: Kernel[P], launch: Launch) -> None:
        self._kernel = kernel
        self._launch = launch

    @property
    def program(self) -> Program:
        """Returns the program of the kernel; raises what ``Kernel.program`` raises."""
        return self._kernel.program

    def __call__(self, *given: Argument | None, **named: Argument | None) -> Any:
        """Runs the kernel; returns the outputs that are left out."""
        return self._kernel._run(given, named, self._launch)

    def __repr__(self) -> str:
        grid, extent = self._launch
        return f"<{self._kernel!r} on {f'{extent} lanes' if grid is None else f'{grid} workgroups'}>"
