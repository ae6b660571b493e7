"""A kernel where a session takes a program: which program, inputs and config its inputs make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre.app.kernels.launcher import Launcher
from vyre.app.resident_dispatch import has_resident
from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.frontend.annotations import StaticType
from vyre.domain.ir.buffers import outputs_of
from vyre.domain.ir.program import Program, ProgramSource

if TYPE_CHECKING:
    from vyre.app.host_arrays import Shapes
    from vyre.app.kernels.kernel import Kernel
    from vyre.app.pipeline import Inputs, OutArrays, Pipeline
    from vyre.app.result import Result
    from vyre.app.session import Session
    from vyre.app.shorthand import Keywords
    from vyre.domain.dispatch import DispatchConfig, OutputArena


class KernelLaunch:
    """A launch of a kernel on a session.

    ``program``, ``inputs``, ``config`` and ``shorthand`` are what the session takes for a program: generic types follow
    from the inputs, static values are part of the program, and sizes of arrays and lanes are filled in where the caller
    gives none.  Raises ``InvalidInput`` for inputs that do not fit, and ``InvalidConfig`` where ``source`` has a number
    of workgroups or lanes and the caller gives another one.
    """

    __slots__ = ("_session", "config", "inputs", "output_shapes", "program", "shorthand")

    def __init__(
        self,
        session: Session,
        source: Kernel[...] | Launcher[...],
        inputs: Inputs,
        config: DispatchConfig | None,
        shorthand: Keywords,
        out: OutArrays | None = None,
    ) -> None:
        shorthand = with_geometry(source, config, shorthand)
        kernel = source._kernel if isinstance(source, Launcher) else source
        arguments = kernel.arguments
        counts = dict((config.output_counts if config is not None else None) or {}) | _counts(shorthand)
        given = {name: array for name, array in _arrays(out) if name not in counts}
        values = arguments.of_inputs(inputs, given)
        resolved = arguments.resolved(values, counts)
        passed = dict(zip(arguments.names, values, strict=True))
        statics = {one.name for one in arguments.parameters if isinstance(one.type, StaticType)}
        self.program: Program = kernel._specialized(resolved).program
        self.inputs: dict[str, Any] = {
            name: value
            for name, value in passed.items()
            if value is not None and name not in statics and name not in given
        } | resolved.sizes(self.program)
        self.config = config
        self.shorthand: Keywords = shorthand
        opened = {name: count for name, count in resolved.output_counts.items() if name not in counts}
        if opened and config is not None and config.output_counts:
            self.config = replace(config, output_counts=opened | dict(config.output_counts))
        elif opened:
            self.shorthand["output_counts"] = opened | _counts(shorthand)
        if resolved.extent is not None and not _has_geometry(config, shorthand):
            self.shorthand["extent"] = resolved.extent
        self._session = session
        self.output_shapes: dict[str, tuple[int, ...]] = resolved.shapes

    def dispatch(self, out: OutArrays | None, outputs: OutputArena | None, *, tune: bool = False) -> Result:
        """Runs once, as ``Session.dispatch`` does."""
        if tune is not False:
            found = self._session.dispatch(
                self.program, self.inputs, self.config, **self.shorthand, out=out, outputs=outputs, tune=tune
            )
            return found.in_shapes(self.output_shapes)
        pipeline, shapes = self.pipeline(), self.shapes()
        if has_resident(self.inputs):
            return pipeline(self.inputs, out=out, outputs=outputs).in_shapes(self.output_shapes)
        return pipeline.run(pipeline.views(self.inputs), out, outputs, shapes)

    def pipeline(self) -> Pipeline:
        """Returns the compiled program."""
        return self._session.compile(self.program, self.config, **self.shorthand)

    def shapes(self) -> Shapes:
        """Returns the declared shapes of the outputs, in binding order."""
        return tuple([self.output_shapes[buffer.name] for buffer in outputs_of(self.program.abi_buffers)])


def with_geometry(source: ProgramSource, config: DispatchConfig | None, shorthand: Keywords) -> Keywords:
    """Returns a copy of the keywords of a session's method, with the number of workgroups or lanes that ``source`` has.

    Raises ``InvalidConfig`` where ``config`` or ``shorthand`` gives one, too.
    """
    found = shorthand.copy()
    if isinstance(source, Launcher):
        if _has_geometry(config, shorthand):
            raise InvalidConfig(
                f"the number of workgroups or lanes is given twice, by {source!r} and beside it",
                fix=f"give it once: pass {source._kernel.__name__} itself, or leave out grid and extent.",
            )
        found["grid"], found["extent"] = source._launch
    return found


def _arrays(out: OutArrays | None) -> list[tuple[str, Any]]:
    if out is None:
        return []
    expect("out", out, Mapping, "a mapping from output names to arrays", InvalidInput)
    return [(name, array) for name, array in out.items() if isinstance(array, np.ndarray)]


def _counts(shorthand: Keywords) -> dict[str, int]:
    counts = shorthand.get("output_counts")
    return dict(counts) if isinstance(counts, Mapping) else {}


def _has_geometry(config: DispatchConfig | None, shorthand: Keywords) -> bool:
    if shorthand.get("grid") is not None or shorthand.get("extent") is not None:
        return True
    return config is not None and bool(config.grid or config.extent or config.element_count_override is not None)
