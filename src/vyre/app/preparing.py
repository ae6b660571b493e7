"""The pipelines that a session has at hand: one for each combination of program and config, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.adapters.caching.single_flight import SingleFlight
from vyre.app.shorthand import merged
from vyre.domain.errors import InvalidInput
from vyre.domain.identity import program_digest
from vyre.domain.ir.program import Program
from vyre.domain.specialization import SpecMap, SpecValue, resolve_spec

if TYPE_CHECKING:
    from vyre.app.pipeline import Pipeline
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.names import Grid
    from vyre.domain.specialization import SpecInput

PREPARED: Final = 1024
"""Pipelines that a session has at hand."""
Key: TypeAlias = "tuple[object, ...]"
_DOUBLE: Final = Struct("<d")
_NUMPY: Final = (np.generic, np.ndarray)


class Wanted(NamedTuple):
    """What is asked for.  ``key``: by identity of ``program`` and ``config``, which whoever keeps it keeps alive.

    ``merged``: ``config`` with everything that was passed beside it.
    """

    key: Key
    program: Program
    config: DispatchConfig | None
    merged: DispatchConfig


Make: TypeAlias = Callable[[Wanted], "Pipeline"]


class PreparedPipelines:
    """Any thread may call.  ``table``: to be read; the first of an entry is the pipeline."""

    def __init__(self) -> None:
        self.table: Final[dict[Key, tuple[Pipeline, Wanted]]] = {}
        self._flights = _flights()
        self._lock = Lock()

    def held(self, key: Key) -> Pipeline | None:
        """What is at hand under ``key``."""
        found = self.table.get(key)
        return None if found is None else found[0]

    def get(self, wanted: Wanted, make: Make) -> Pipeline:
        """At hand from now on.  Threads that ask for the same share one compilation, and its error.

        The timeout of the config bounds the wait for another thread.
        """
        while True:  # a compilation in the background that failed is nobody's error but its own
            pipeline, _ = self._flights.run(wanted.key, lambda: self._keep(wanted, make), wanted.merged.timeout_s)
            if pipeline is not None:
                return pipeline

    def get_ahead(self, wanted: Wanted, make: Make) -> Pipeline:
        """The same in the background: if it fails, threads that wait for it compile for themselves."""
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
        """Programs with these digests, or all, are prepared anew when they are next wanted, also those that are being
        prepared now.
        """
        with self._lock:
            self._flights = _flights()
            for key, (_, wanted) in list(self.table.items()):
                if programs is None or program_digest(wanted.program) in programs:
                    del self.table[key]

    def _keep(self, wanted: Wanted, make: Make) -> Pipeline:
        found = self.table.get(wanted.key)  # another thread may have ended its preparation since we looked
        if found is None:
            before = self._flights
            found = (make(wanted), wanted)
            with self._lock:
                if self._flights is not before:  # it was forgotten meanwhile
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
    """``config`` with the shorthand folded in and its constants checked against the program."""
    if not isinstance(program, Program):
        raise InvalidInput(f"program is a {type(program).__name__}", fix="pass a Program, e.g. builder.build().")
    constants = None if spec is None else resolve_spec(program, spec)
    result = merged(config, grid, extent, output_counts, constants, race_check)
    if result.spec is not None and spec is None:
        result = replace(result, spec=resolve_spec(program, result.spec))
    return result


def shorthand_key(
    program: Program,
    config: DispatchConfig | None,
    spec: Mapping[str, SpecInput] | None,
    grid: Grid | None,
    extent: Grid | None,
    output_counts: Mapping[str, int] | None,
    race_check: bool,
) -> Key:
    """Under which the pipeline of these arguments is at hand: equal only for arguments that mean the same.

    Types are part of it, since 1, 1.0 and True are equal and hash alike; of floats the bits are, since 0.0 and -0.0 are
    equal, and no NaN is equal to itself.  Who passes no shorthand needs only the two ids.
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
    """With the type of ``value``, equal only for the same bits."""
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
    return int(value) if isinstance(value, int) else object()  # equal to nothing: prepared each time


def _flights() -> SingleFlight[Key, Pipeline | None]:
    return SingleFlight(lambda key: "the same program")
