"""``@vyre.kernel``: a Python function as a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, overload

from vyre.adapters.forks import process_lock
from vyre.app.kernels.arguments import Arguments, Resolved, Values
from vyre.app.kernels.current_session import current_session
from vyre.app.kernels.entered import ENTERED
from vyre.app.kernels.launches import (
    KernelLaunch,
    Launch,
    LaunchedKernel,
    Launcher,
    LaunchSession,
    check_covered,
    chosen_type,
    planned,
)
from vyre.app.kernels.plans import CallPlan
from vyre.app.shorthand import Keywords
from vyre.app.views import as_html
from vyre.domain.arguments import expect
from vyre.domain.dispatch import DispatchConfig, axes_of
from vyre.domain.errors import BuildError, InvalidInput, KernelSourceError, UnfitArguments
from vyre.domain.frontend.carrying import Carried, Remaking
from vyre.domain.frontend.definition import KernelDefinition, Specialized
from vyre.domain.frontend.inlined import Inlined
from vyre.domain.ir import arguments
from vyre.domain.ir.caller import outside
from vyre.domain.ir.numpy_scalars import Size
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import shown
from vyre.domain.value_identity import identity
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.app.pipeline import Argument, Pipeline
    from vyre.app.session import Session
    from vyre.domain.frontend.typed_calls import TypedCalls
    from vyre.domain.names import Grid

P = ParamSpec("P")
R = TypeVar("R")
DEFAULT_WORKGROUP: Final = 256
Workgroup: TypeAlias = Size | str | tuple[Size | str, ...]


class Kernel(Carried, LaunchedKernel, Generic[P]):
    """A kernel in plain Python; call it with its arguments, or pass it to a session where a program is wanted.

    ``saxpy(2.0, xs, ys)`` runs it on the session of the enclosing ``with session:``, or on the default session of the
    process.  Arrays given for ``InOut`` and ``Out`` are written in place; ``Out`` arrays that are left out, or None,
    are returned, several of them as a tuple.  A resident array of the session stands for any array.
    ``saxpy[grid](...)`` runs that many workgroups, ``saxpy.over(extent)(...)`` that many lanes.  Without either, each
    axis has the lanes for the indices that the kernel's ids along it reach, by the rules of ``Session.dispatch``.

    A call sees the contents that its arguments have when it begins, also where an array that is written shares memory
    with one that is read; two arrays that are written must not share memory (``InvalidResource``).  A call that traps
    leaves all arrays of the host as they were; one that is interrupted, or runs out of memory, may have written some
    of its results.  Raises ``UnfitArguments`` (a ``TypeError``) for arguments that do not fit the parameters,
    ``InvalidInput`` for arrays of other types, read-only or not C-contiguous, and what ``Session.dispatch`` raises.
    """

    def __init__(self, definition: KernelDefinition) -> None:
        self.definition: Final = definition
        self.__name__: str = definition.name
        self.__qualname__: str = definition.function.__qualname__
        self.__module__: str = definition.function.__module__
        self.__doc__ = definition.function.__doc__
        self.__wrapped__: FunctionType = definition.function
        self._arity: Final = len(definition.parameters)
        self._arguments: Arguments | None = None
        self._is_plain = False
        self._cached: Final[dict[None, Specializations]] = {}

    @property
    def _parameters(self) -> Arguments:
        """Returns the parameters, which bind and resolve the arguments of calls."""
        parameters = self._arguments
        if parameters is None:
            parameters = self._arguments = Arguments(self.definition)
            self._is_plain = not parameters.traits
        return parameters

    @property
    def _specializations(self) -> Specializations:
        specializations = self._cached.get(None)
        if specializations is None:
            new = Specializations(self.definition, self._parameters.generic, self._parameters.statics)
            specializations = self._cached.setdefault(None, new)  # of several threads, the first one's
        return specializations

    # ------------------------------------------------------------ programs
    @property
    def program(self) -> Program:
        """Returns the program.  Raises ``KernelSourceError``, and ``InvalidInput`` for a generic kernel."""
        names = self._open_names
        if names:
            values = ", ".join(f"{name}=..." for name in names)
            raise InvalidInput(
                f"`{self.__name__}` is generic over {', '.join(names)}, so it has no single program",
                fix=f"write {self.__name__}.specialize({values}).",
            )
        return self._specializations.get((), ()).program

    def specialize(self, **values: Any) -> Program:
        """Returns the program for types and static values, by name: ``kernel.specialize(T=f32, n=16)``.

        Raises ``UnfitArguments`` for other names, ``InvalidInput`` for other values, and ``KernelSourceError``.
        """
        names = self._open_names
        if set(values) != set(names):
            raise UnfitArguments(
                f"`{self.__name__}` is generic over {', '.join(names) or 'nothing'}",
                fix=f"give {', '.join(f'{name}=...' for name in names)}."
                if names
                else f"write {self.__name__}.program.",
                loc=outside(),
            )
        parameters = self._parameters
        types = tuple(chosen_type(name, values[name]) for name in parameters.generic)
        for name, element in zip(parameters.generic, types, strict=True):
            parameters.check_type(name, element)
        statics = tuple(parameters.static(name, values[name]) for name in parameters.statics)
        return self._specializations.get(types, statics).program

    @property
    def _open_names(self) -> tuple[str, ...]:
        return (*self._parameters.generic, *self._parameters.statics)

    def compile(self, session: Session | None = None, config: DispatchConfig | None = None, **values: Any) -> Pipeline:
        """Compiles the kernel ahead of its first call, on ``session`` or on the one that a call would use.

        ``values``: types and static values, as for ``specialize``.  The pipeline takes the inputs of the program, which
        are those of the kernel and the sizes of arrays of several axes.  Raises ``InvalidConfig`` for a kernel with ids
        along y or z if the config does not say how many lanes it has: ``session.prepare(kernel)`` asks for none.
        """
        from vyre.app.session import Session

        expect("session", session, (Session, type(None)), "a Session, or None")
        program = self.specialize(**values) if values else self.program
        check_covered(self, program, config, Keywords())
        return (current_session() if session is None else session).compile(program, config)

    # ------------------------------------------------------------ calls
    _launch_on = planned

    def __call__(self, *values: Argument | None, **named: Argument | None) -> Any:
        """Runs the kernel; returns the outputs that are left out."""
        if named or len(values) != self._arity or not self._is_plain:
            return self._run(values, named, None)
        entered = ENTERED.get()
        plan = (entered[-1][0] if entered and entered[-1][1] is None else current_session())._calls.get(self)
        if plan is None or not plan.specialized.unchanged():
            return self._run(values, named, None)
        return plan.call(*values)

    def __getitem__(self, grid: Grid) -> Launcher[P]:
        """Returns the kernel with so many workgroups along each axis, x first.  Raises ``InvalidConfig``."""
        return Launcher(self, (axes_of("grid", grid), None))

    def over(self, extent: Grid) -> Launcher[P]:
        """Returns the kernel with so many lanes along each axis, x first; the grid covers them.  Raises
        ``InvalidConfig``.
        """
        return Launcher(self, (None, axes_of("extent", extent)))

    def _run(self, values: tuple[Any, ...], named: Mapping[str, Any], launch: Launch | None) -> Any:
        arguments = self._parameters
        if named or len(values) != self._arity:
            values = arguments.bound(values, named)
        session = current_session()
        key: Any = self
        if launch is not None or arguments.traits:
            try:
                key = (self, launch, *[trait(values[place]) for place, trait in arguments.traits])
            except (AttributeError, TypeError, ValueError, RecursionError):
                key = None  # an argument of a wrong kind, which is refused below
        try:
            plan = session._calls.get(key)
        except TypeError:  # a trait without a hash
            key = plan = None
        if plan is None or not plan.specialized.is_current():
            plan = self._planned(session, key, values, launch)
        return plan.call(*values)

    def _specialized(self, resolved: Resolved) -> Specialized:
        """Returns the present program for what follows from arguments."""
        return self._specializations.get(resolved.types, resolved.statics)

    def _planned(self, session: LaunchSession, key: object, values: Values, launch: Launch | None) -> CallPlan:
        """Compiles the kernel for arguments like these, and keeps the plan of such calls."""
        self._parameters.bound(values, {})
        grid, extent = launch or (None, None)
        launched = KernelLaunch(self, values, None, Keywords(grid=grid, extent=extent))
        plan = CallPlan(
            self._parameters, launched.resolved, launched.specialized, launched.compiled(session), session._lease
        )
        if key is not None:
            session._pipelines.keep(session._calls, key, plan)
        return plan

    def _remaking(self) -> Remaking:
        return _remade, self.definition.remaking()

    _repr_html_ = as_html

    def __repr__(self) -> str:
        return f"<vyre.kernel {self.__name__}>"


def _remade(function: FunctionType, *arguments: Any) -> Kernel[Any]:
    return Kernel(KernelDefinition(function, *arguments))


@overload
def kernel(function: Callable[P, None], /) -> Kernel[P]: ...
@overload
def kernel(*, workgroup: Workgroup = ...) -> Callable[[Callable[P, None]], Kernel[P]]: ...
def kernel(
    function: Callable[P, None] | None = None, /, *, workgroup: Workgroup = DEFAULT_WORKGROUP
) -> Kernel[P] | Callable[[Callable[P, None]], Kernel[P]]:
    """Makes a kernel of a Python function: ``@vyre.kernel(workgroup=256)``.

    The function's source becomes a program, and its body is never run as Python.  ``workgroup``: the number of lanes of
    a workgroup along x, or a tuple of up to three axes; the name of a ``Static[int]`` parameter stands for its value,
    which may size ``workgroup_array``, too.  Raises ``KernelSourceError`` where Python keeps no source of
    the function, and for parameters that are not annotated; the body is checked at the first use.
    """
    names = _local_names()
    try:
        axes = workgroup if isinstance(workgroup, tuple) else (workgroup,)
        known = tuple([1 if isinstance(size, str) else size for size in axes])
        lanes = arguments.workgroup_size(known if isinstance(workgroup, tuple) else known[0])
    except BuildError as error:  # it names the line above
        raise BuildError(error.message.removeprefix(f"{error.loc}: "), fix=error.fix, loc=outside()) from None
    sizes = tuple([size if isinstance(size, str) else lanes[axis] for axis, size in enumerate((*axes, 1, 1)[:3])])

    def make(decorated: Callable[P, None]) -> Kernel[P]:
        if not isinstance(decorated, FunctionType):
            is_size = isinstance(decorated, int | tuple)
            fix = f"write @vyre.kernel(workgroup={shown(decorated)})." if is_size else "decorate a `def`."
            raise KernelSourceError(f"{shown(decorated)} is no Python function", fix=fix, loc=outside())
        return Kernel(KernelDefinition(decorated, sizes, names))

    return make if function is None else make(function)


def function(decorated: Callable[P, R], /) -> TypedCalls[P, R]:
    """Makes a function that kernels may call: ``@vyre.function``.  Its statements become part of the kernel.

    Called by Python, it is the Python function that it was made of.
    """
    if not isinstance(decorated, FunctionType):
        raise KernelSourceError(f"{shown(decorated)} is no Python function", fix="decorate a `def`.", loc=outside())
    return Inlined(decorated, _local_names())


def _local_names() -> dict[str, Any]:
    """Returns the local names where a function of this module is called.  A module has none: its names are those of
    the functions that it defines, and would hide the names of a function that another module defines.
    """
    frame = sys._getframe(2)
    names = frame.f_locals
    return {} if names is frame.f_globals else dict(names)


Static: TypeAlias = int | float | bool
Key: TypeAlias = tuple[object, ...]
MOST: Final = 1024
"""How many programs of one kernel are kept."""


class Specializations:
    """Makes programs when they are first needed; may be used from any thread."""

    def __init__(self, definition: KernelDefinition, generic: tuple[str, ...], statics: tuple[str, ...]) -> None:
        self._definition: Final = definition
        self._generic: Final = generic
        self._statics: Final = statics
        self._programs: dict[Key, tuple[Specialized, ...]] = {}
        self._count = 0
        self._lock = process_lock()

    def get(self, types: tuple[ScalarType, ...], statics: tuple[Static, ...]) -> Specialized:
        """Returns the program for types, static values and the present values of captured constants.

        Raises ``KernelSourceError`` and ``InvalidProgram``.
        """
        key = (types, tuple(map(identity, statics)))
        specialized = self._current(key)
        if specialized is None:
            with self._lock, sealed:
                specialized = self._current(key)
                if specialized is None:
                    specialized = self._definition.specialized(
                        dict(zip(self._generic, types, strict=True)), dict(zip(self._statics, statics, strict=True))
                    )
                    if self._count >= MOST:
                        self._programs.clear()
                        self._count = 0
                    self._programs[key] = (specialized, *self._programs.get(key, ()))
                    self._count += 1
        return specialized

    def _current(self, key: Key) -> Specialized | None:
        for one in self._programs.get(key, ()):
            if one.is_current():
                return one
        return None
