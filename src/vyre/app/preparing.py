"""The prepared pipelines of a session: a bounded cache, keyed by program and config."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.adapters.caching.single_flight import SingleFlight
from vyre.app.shorthand import merged
from vyre.domain.errors import InvalidInput
from vyre.domain.identity import program_digest
from vyre.domain.ir.program import Program, ProgramLike
from vyre.domain.shown import kind_of
from vyre.domain.specialization import SpecMap, SpecValue, resolve_spec

if TYPE_CHECKING:
    from vyre.app.kernels.plans import CallPlan
    from vyre.app.pipeline import Pipeline
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.names import Grid
    from vyre.domain.specialization import SpecInput

PREPARED: Final = 1024
"""Capacity of the cache, in pipelines."""
Key: TypeAlias = "tuple[object, ...]"
_DOUBLE: Final = Struct("<d")
_NUMPY: Final = (np.generic, np.ndarray)


class Wanted(NamedTuple):
    """A request for a pipeline.

    ``key``: by identity of ``program`` and ``config``; the holder of a key must keep both alive.  ``merged``:
    ``config`` with the other keywords of the call.
    """

    key: Key
    program: Program
    config: DispatchConfig | None
    merged: DispatchConfig


Make: TypeAlias = Callable[[Wanted], "Pipeline"]


class PreparedPipelines:
    """A cache of pipelines; every method may be called from any thread.

    ``table`` is for reading; the first item of an entry is the pipeline.  ``calls`` holds the plans of called kernels,
    which keep their pipelines.
    """

    def __init__(self) -> None:
        self.calls: Final[dict[object, CallPlan]] = {}
        self.table: Final[dict[Key, tuple[Pipeline, Wanted]]] = {}
        self._flights = _flights()
        self._lock = Lock()

    def held(self, key: Key) -> Pipeline | None:
        """Returns the pipeline under ``key``, or None."""
        found = self.table.get(key)
        return None if found is None else found[0]

    def get(self, wanted: Wanted, make: Make) -> Pipeline:
        """Returns the pipeline, compiling and caching it on a miss.

        Threads that request the same share one compilation, and its error.  The timeout of the config bounds the wait
        for another thread.
        """
        while True:  # an error of a compilation in the background is not the caller's: try again
            pipeline, _ = self._flights.run(wanted.key, partial(self._keep, wanted, make), wanted.merged.timeout_s)
            if pipeline is not None:
                return pipeline

    def get_ahead(self, wanted: Wanted, make: Make) -> Pipeline:
        """As ``get``, in the background: if it fails, threads that wait for it compile for themselves."""
        failures: list[Exception] = []

        def attempt() -> Pipeline | None:
            try:
                return self._keep(wanted, make)
            except Exception as error:
                failures.append(error)
                return None

        pipeline, _ = self._flights.run(wanted.key, attempt)
        if pipeline is None:
            raise failures[0]
        return pipeline

    def forget(self, programs: Collection[bytes] | None) -> None:
        """Drops the pipelines of programs with these digests, or all, also those that are being prepared: the next
        request prepares them anew.
        """
        with self._lock:
            self._flights = _flights()
            self.calls.clear()
            for key, (_, wanted) in list(self.table.items()):
                if programs is None or program_digest(wanted.program) in programs:
                    del self.table[key]

    def keep_call(self, key: object, plan: CallPlan) -> None:
        """Keeps the plan of calls, and drops the oldest one where there are too many."""
        with self._lock:
            while len(self.calls) >= PREPARED:
                del self.calls[next(iter(self.calls))]
            self.calls[key] = plan

    def _keep(self, wanted: Wanted, make: Make) -> Pipeline:
        found = self.table.get(wanted.key)  # another thread may have finished its preparation since the lookup
        if found is None:
            before = self._flights
            found = (make(wanted), wanted)
            with self._lock:
                if self._flights is not before:  # ``forget`` was called meanwhile
                    return found[0]
                while len(self.table) >= PREPARED:
                    del self.table[next(iter(self.table))]
                self.table[wanted.key] = found
        return found[0]


def merged_for(
    program: Program,
    config: DispatchConfig | None,
    spec: Mapping[str, SpecInput] | None = None,
    grid: Grid | None = None,
    extent: Grid | None = None,
    output_counts: Mapping[str, int] | None = None,
    race_check: bool = False,
) -> DispatchConfig:
    """Returns ``config`` with the shorthand merged into it and its constants checked against the program."""
    if not isinstance(program, Program):
        raise InvalidInput(f"program is {kind_of(program)}", fix="pass a Program, e.g. builder.build().")
    constants = None if spec is None else resolve_spec(program, spec)
    result = merged(config, grid, extent, output_counts, constants, race_check)
    if result.spec is not None and spec is None:
        result = replace(result, spec=resolve_spec(program, result.spec))
    return result


def shorthand_key(
    program: ProgramLike,
    config: DispatchConfig | None,
    spec: Mapping[str, SpecInput] | None,
    grid: Grid | None,
    extent: Grid | None,
    output_counts: Mapping[str, int] | None,
    race_check: bool,
) -> Key:
    """Returns the cache key of the pipeline of these arguments: keys are equal only for arguments of the same meaning.

    It includes the types, since 1, 1.0 and True are equal and hash alike, and the bits of floats, since 0.0 and -0.0
    are equal, and a NaN is not equal to itself.  A call without shorthand needs only the two ids.
    """
    return (
        id(program),
        id(config),
        grid if grid is None or type(grid) is int else _typed(grid),
        extent if extent is None or type(extent) is int else _typed(extent),
        spec if spec is None or type(spec) is SpecMap else _frozen(spec),
        None if output_counts is None else _frozen(output_counts),
        type(race_check),
        race_check,
    )


def _typed(axes: object) -> Key:
    return (axes, *map(type, axes)) if type(axes) is tuple else (type(axes), axes)


def _frozen(values: object) -> Key:
    if type(values) is dict or isinstance(values, Mapping):
        return tuple([(name, type(value), _value_key(value)) for name, value in values.items()])
    return type(values), object()  # refused when the config is made


def _value_key(value: object) -> object:
    """Returns a key with the type of ``value``, equal only for the same bits."""
    kind = type(value)
    if kind is float:
        return _DOUBLE.pack(value)
    if kind is int or kind is bool or kind is SpecValue:
        return value
    if isinstance(value, np.ma.MaskedArray):
        return object()
    if isinstance(value, _NUMPY) and value.shape == () and not value.dtype.hasobject:
        return value.dtype.str, value.tobytes()
    if isinstance(value, float):
        return _DOUBLE.pack(value)
    return int(value) if isinstance(value, int) else object()  # equal to no other key: prepared each time


def _flights() -> SingleFlight[Key, Pipeline | None]:
    return SingleFlight(lambda key: "the same program")
