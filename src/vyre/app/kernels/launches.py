"""Launches of kernels: ``kernel[grid]``, and which program, inputs and config the arguments of a kernel make of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeAlias, cast

import numpy as np

from vyre.app.kernels.arguments import Arguments, Resolved, Values, is_output
from vyre.app.kernels.plans import CallPlan, LaunchPlan
from vyre.app.preparing import Key, PreparedPipelines, shorthand_key
from vyre.app.resident import ResidentArray
from vyre.app.shorthand import Keywords, check_config
from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.ir.buffers import outputs_of
from vyre.domain.ir.numpy_scalars import element_type
from vyre.domain.ir.program import Program, ProgramSource
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import shown
from vyre.domain.specialization import SpecMap, SpecValue

if TYPE_CHECKING:
    from vyre.app.lease import BackendLease
    from vyre.app.pipeline import Argument, Inputs, OutArrays, Pipeline
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.frontend.definition import Specialized
    from vyre.domain.names import Size

P = ParamSpec("P")
Launch: TypeAlias = tuple[tuple[int, ...] | None, tuple[int, ...] | None]
"""The workgroups or the lanes along each axis, one of which is given."""
KernelSource: TypeAlias = "LaunchedKernel | Launcher[...]"
_ARRAYS: Final = frozenset((np.ndarray, ResidentArray))
_NO_KEYWORDS: Final = Keywords(spec=None, grid=None, extent=None, output_counts=None, race_check=False)


class LaunchSession(Protocol):
    """The part of a session that launches of kernels use."""

    _calls: dict[object, CallPlan]
    _lease: BackendLease
    _pipelines: PreparedPipelines

    @property
    def compile(self) -> Callable[..., Pipeline]: ...


class LaunchedKernel(ProgramSource):
    """What its launches need of a kernel; ``Kernel`` is the only one."""

    __name__: str

    @property
    @abstractmethod
    def _parameters(self) -> Arguments:
        """Returns the parameters, which bind and resolve the arguments of calls."""

    @abstractmethod
    def specialize(self, **values: Any) -> Program:
        """Returns the program for types and static values, by name."""

    @abstractmethod
    def _run(self, values: tuple[Any, ...], named: Mapping[str, Any], launch: Launch | None) -> Any: ...

    @abstractmethod
    def _specialized(self, resolved: Resolved) -> Specialized: ...

    @abstractmethod
    def _launch_on(
        self, session: LaunchSession, inputs: Inputs, config: DispatchConfig | None, shorthand: Keywords,
        out: OutArrays | None = None,
    ) -> tuple[LaunchPlan, Inputs]: ...  # fmt: skip


class Launcher(ProgramSource, Generic[P]):
    """A kernel with a number of workgroups or of lanes.

    Call it with the arguments of the kernel, or pass it to a session where a kernel is wanted: its launches have that
    number, and a method that gets another one raises ``InvalidConfig``.  Functions that launch nothing, such as
    ``vyre.emit``, take its program.
    """

    __slots__ = ("_kernel", "_launch")

    def __init__(self, kernel: LaunchedKernel, launch: Launch) -> None:
        self._kernel = kernel
        self._launch = launch

    @property
    def _parameters(self) -> Arguments:
        """Returns the parameters of the kernel."""
        return self._kernel._parameters

    @property
    def program(self) -> Program:
        """Returns the program of the kernel; raises what ``Kernel.program`` raises."""
        return self._kernel.program

    def __call__(self, *values: Argument | None, **named: Argument | None) -> Any:
        """Runs the kernel; returns the outputs that are left out."""
        return self._kernel._run(values, named, self._launch)

    def _launch_on(
        self, session: LaunchSession, inputs: Inputs, config: DispatchConfig | None, shorthand: Keywords,
        out: OutArrays | None = None,
    ) -> tuple[LaunchPlan, Inputs]:  # fmt: skip
        return planned(self, session, inputs, config, shorthand, out)

    def __repr__(self) -> str:
        grid, extent = self._launch
        return f"<{self._kernel!r} on {f'{extent} lanes' if grid is None else f'{grid} workgroups'}>"


class KernelLaunch:
    """A launch of a kernel with arguments for its parameters.

    ``program``, ``inputs``, ``config`` and ``shorthand`` are what a session takes for a program: generic types follow
    from the arguments, static values are part of the program, and sizes of arrays and lanes are filled in where the
    caller gives none.  Arguments named by ``omitted`` only give the sizes of outputs.  Raises ``InvalidInput`` for
    arguments that do not fit.
    """

    __slots__ = ("config", "inputs", "program", "resolved", "shorthand", "sizes", "specialized")

    def __init__(
        self,
        kernel: LaunchedKernel,
        values: Values,
        config: DispatchConfig | None,
        shorthand: Keywords,
        omitted: Collection[str] = (),
    ) -> None:
        check_config(config)
        arguments = kernel._parameters
        counts = dict((config.output_counts if config is not None else None) or {}) | _counts(shorthand)
        types, config, shorthand = chosen_types(arguments, config, shorthand)
        self.resolved: Resolved = arguments.resolved(values, counts, types)
        self.specialized: Specialized = kernel._specialized(self.resolved)
        self.program: Program = self.specialized.program
        self.sizes: dict[str, int] = self.resolved.sizes(self.program)
        self.inputs: dict[str, Any] = {
            name: value
            for name, value in zip(arguments.names, values, strict=True)
            if value is not None and name not in arguments.statics and name not in omitted
        } | self.sizes
        self.config = config
        self.shorthand: Keywords = shorthand.copy()
        opened = {name: count for name, count in self.resolved.output_counts.items() if name not in counts}
        if opened and config is not None and config.output_counts:
            self.config = replace(config, output_counts=opened | dict(config.output_counts))
        elif opened:
            self.shorthand["output_counts"] = opened | _counts(shorthand)
        grid, lanes = shorthand.get("grid"), shorthand.get("extent")
        if config is not None and grid is None and lanes is None:
            grid, lanes = config.grid, config.extent
        if grid is not None or lanes is not None or not _has_geometry(config, shorthand):
            workgroup = None if config is None else config.workgroup
            reached = arguments.launched(self.program, self.resolved.shapes, grid, lanes, workgroup)
            if reached is not None:
                self.shorthand["extent"] = reached

    def compiled(self, session: LaunchSession) -> Pipeline:
        """Returns the pipeline of the program."""
        return session.compile(self.program, self.config, **self.shorthand)


def launch_of(
    source: KernelSource,
    inputs: Inputs,
    config: DispatchConfig | None,
    shorthand: Keywords,
    out: OutArrays | None = None,
) -> KernelLaunch:
    """Returns the launch of a kernel with the arguments of a session's method.

    Raises what ``KernelLaunch`` raises, and ``InvalidConfig`` where ``source`` has a number of workgroups or lanes and
    the caller gives another one.
    """
    shorthand = with_geometry(source, config, shorthand)
    kernel = source._kernel if isinstance(source, Launcher) else source
    counts = dict((config.output_counts if config is not None else None) or {}) | _counts(shorthand)
    outputs = {one.name for one in kernel._parameters.parameters if is_output(one)}
    omitted = {name: array for name, array in _arrays(out) if name in outputs and name not in counts}
    return KernelLaunch(kernel, kernel._parameters.of_inputs(inputs, omitted), config, shorthand, omitted)


def planned(
    source: KernelSource,
    session: LaunchSession,
    inputs: Inputs,
    config: DispatchConfig | None,
    shorthand: Keywords,
    out: OutArrays | None = None,
) -> tuple[LaunchPlan, Inputs]:
    """Returns the plan of a launch, and the inputs of its program.

    The session keeps the plans of the last kinds of inputs.  Raises what ``launch_of`` and ``Session.compile`` raise.
    """
    plans = session._pipelines.launches
    key: Key | None
    try:
        key = _key_of(source, inputs, config, shorthand, out)
        plan = plans.get(key)
    except (KeyError, AttributeError, TypeError, ValueError, RecursionError):  # an argument of another kind
        key = plan = None
    if plan is not None and (plan.specialized.unchanged() or plan.specialized.is_current()):
        named = cast("dict[str, Any]", inputs)
        if not plan.sizes and len(plan.passed) == len(named):
            return plan, named
        return plan, {name: named[name] for name in plan.passed} | plan.sizes
    session._lease.check_process()
    launch = launch_of(source, inputs, config, shorthand, out)
    passed = tuple([name for name in launch.inputs if name not in launch.sizes])
    outputs = [launch.resolved.shapes[buffer.name] for buffer in outputs_of(launch.program.abi_buffers)]
    shapes = tuple([None if len(shape) == 1 else shape for shape in outputs])
    plan = LaunchPlan(launch.compiled(session), launch.specialized, passed, launch.sizes, shapes, config)
    if key is not None:
        session._pipelines.keep(plans, key, plan)
    return plan, launch.inputs


def _key_of(
    source: KernelSource, inputs: Inputs, config: DispatchConfig | None, shorthand: Keywords, out: OutArrays | None
) -> Key:
    """Returns the key of the plan of a launch.  Raises ``KeyError`` or ``TypeError`` for arguments that have none."""
    kernel, launch = (source._kernel, source._launch) if isinstance(source, Launcher) else (source, None)
    arguments = kernel._parameters
    named, kinds = cast("dict[str, Any]", inputs), arguments.kinds
    if arguments.traits:
        described = [kinds[name](value) for name, value in named.items()]
    else:  # in place of a call for each array
        described = [v.shape if type(v) in _ARRAYS else kinds[name](v) for name, v in named.items()]
    key: Key = (kernel, launch, id(config), *named, *described)
    if out is not None:
        key = (*key, tuple(out), *[kinds[name](array) for name, array in out.items()])
    if shorthand:
        key = (*key, shorthand_key(kernel, config, **(_NO_KEYWORDS | shorthand)))
    return key


def with_geometry(source: ProgramSource, config: DispatchConfig | None, shorthand: Keywords) -> Keywords:
    """Returns a copy of the keywords of a session's method, with the number of workgroups or lanes that ``source`` has.

    Raises ``InvalidConfig`` where ``config`` or ``shorthand`` gives one, too, and for a config that is none.
    """
    check_config(config)
    keywords = shorthand.copy()
    if isinstance(source, Launcher):
        if _has_geometry(config, shorthand):
            raise InvalidConfig(
                f"the number of workgroups or lanes is given twice, by {source!r} and beside it",
                fix=f"give it once: pass {source._kernel.__name__} itself, or leave out grid and extent.",
            )
        keywords["grid"], keywords["extent"] = source._launch
    return keywords


def program_of(
    source: KernelSource, config: DispatchConfig | None, shorthand: Keywords
) -> tuple[Program, DispatchConfig | None, Keywords]:
    """Returns the program of a kernel without arguments, with the types that specialization values name, and the config
    and keywords for it.
    """
    kernel = source._kernel if isinstance(source, Launcher) else source
    types, config, shorthand = chosen_types(kernel._parameters, config, with_geometry(source, config, shorthand))
    return kernel.specialize(**types) if types else kernel.program, config, shorthand


def check_covered(source: KernelSource, program: Program, config: DispatchConfig | None, shorthand: Keywords) -> None:
    """Raises ``InvalidConfig`` where lanes of a kernel cannot be counted without its arguments, along y or z.

    The grid that is inferred for a program extends along x alone, and would leave out most of what the kernel does.
    """
    check_config(config)
    workgroup = (config and config.workgroup) or program.workgroup_size
    if _has_geometry(config, shorthand) or max(workgroup[1:]) > 1:  # a workgroup of several axes needs a grid anyway
        return
    parameters = source._parameters
    axis = max(parameters.reach(program).reads, default=0)
    if axis:
        raise InvalidConfig(
            f"`{parameters.title}` has ids along {'xyz'[axis]}, and no arguments that tell how many lanes it has",
            fix="give extent=(x, y) or grid=(x, y), or pass the kernel itself to dispatch, bind, submit or prepare.",
        )


def chosen_types(
    arguments: Arguments, config: DispatchConfig | None, shorthand: Keywords
) -> tuple[dict[str, ScalarType], DispatchConfig | None, Keywords]:
    """Returns the types of type parameters that specialization values name, and the config and keywords without them.

    Raises ``InvalidInput`` for values that are no types of elements.
    """
    values: Mapping[str, Any] | None = shorthand.get("spec")
    if values is None and config is not None:
        values = config.spec
    if not arguments.generic or not isinstance(values, Mapping):
        return {}, config, shorthand
    chosen = {name: values[name] for name in arguments.generic if name in values}
    types = {name: chosen_type(name, v.data_type if isinstance(v, SpecValue) else v) for name, v in chosen.items()}
    if not types:
        return types, config, shorthand
    others = {name: value for name, value in values.items() if name not in types} or None
    if config is None or shorthand.get("spec") is not None:
        shorthand = shorthand.copy()
        shorthand["spec"] = others
        return types, config, shorthand
    return types, replace(config, spec=others and SpecMap(others)), shorthand


def chosen_type(name: str, value: object) -> ScalarType:
    """Returns the type that a caller names for a type parameter.  Raises ``InvalidInput``."""
    element = value if isinstance(value, ScalarType) else element_type(value)
    if element is None:
        raise InvalidInput(f"{name}={shown(value)} is no type", fix=f"write {name}=f32 or the like.")
    return element


def _arrays(out: OutArrays | None) -> list[tuple[str, Any]]:
    if out is None:
        return []
    expect("out", out, Mapping, "a mapping from output names to arrays", InvalidInput)
    return [(name, array) for name, array in out.items() if isinstance(array, np.ndarray)]


def _counts(shorthand: Keywords) -> dict[str, Size]:
    counts = shorthand.get("output_counts")
    return dict(counts) if isinstance(counts, Mapping) else {}


def _has_geometry(config: DispatchConfig | None, shorthand: Keywords) -> bool:
    if shorthand.get("grid") is not None or shorthand.get("extent") is not None:
        return True
    return config is not None and bool(config.grid or config.extent or config.element_count_override is not None)
