"""The prepared pipelines of a session: a bounded cache, keyed by program and config."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from vyre.adapters.caching.single_flight import SingleFlight
from vyre.adapters.forks import process_lock
from vyre.app.shorthand import merged
from vyre.domain.errors import InvalidInput
from vyre.domain.ir.numpy_scalars import whole_number
from vyre.domain.ir.program import Program, ProgramLike
from vyre.domain.printable import kind_of
from vyre.domain.specialization import SpecInput, SpecMap, SpecValue, resolve_spec
from vyre.domain.value_identity import identity
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.app.kernels.plans import CallPlan, LaunchPlan
    from vyre.app.pipeline import Pipeline
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.names import Grid, Size

PREPARED: Final = 1024
"""Capacity of the cache, in pipelines."""
K = TypeVar("K")
V = TypeVar("V")
Key: TypeAlias = "tuple[object, ...]"


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
    and ``launches`` those of kernels where a session takes a program; plans keep their pipelines.
    """

    def __init__(self) -> None:
        self.calls: Final[dict[object, CallPlan]] = {}
        self.launches: Final[dict[Key, LaunchPlan]] = {}
        self.table: Final[dict[Key, tuple[Pipeline, Wanted]]] = {}
        self._flights = _flights()
        self._lock = process_lock()

    def held(self, key: Key) -> Pipeline | None:
        """Returns the pipeline under ``key``, or None."""
        entry = self.table.get(key)
        return None if entry is None else entry[0]

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
        with self._lock, sealed:
            self._flights = _flights()
            self.calls.clear()
            self.launches.clear()
            for key, (_, wanted) in list(self.table.items()):
                if programs is None or wanted.program.digest in programs:
                    del self.table[key]

    def keep(self, table: dict[K, V], key: K, value: V) -> None:
        """Keeps an entry of one of the tables, and drops the oldest one where there are too many."""
        with self._lock, sealed:
            while len(table) >= PREPARED:
                del table[next(iter(table))]
            table[key] = value

    def _keep(self, wanted: Wanted, make: Make) -> Pipeline:
        entry = self.table.get(wanted.key)  # another thread may have finished its preparation since the lookup
        if entry is None:
            before = self._flights
            entry = (make(wanted), wanted)
            with self._lock, sealed:
                if self._flights is not before:  # ``forget`` was called meanwhile
                    return entry[0]
                self.keep(self.table, wanted.key, entry)
        return entry[0]


def merged_for(
    program: Program,
    config: DispatchConfig | None,
    spec: Mapping[str, SpecInput] | None = None,
    grid: Grid | None = None,
    extent: Grid | None = None,
    output_counts: Mapping[str, Size] | None = None,
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
    output_counts: Mapping[str, Size] | None,
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


def _typed(axes: object) -> object:
    if type(axes) is tuple:
        return tuple(map(_typed, axes))
    number = whole_number(axes)
    return (type(axes), axes) if number is None else number


def _frozen(values: object) -> Key:
    if type(values) is dict or isinstance(values, Mapping):
        return tuple([(name, value if type(value) is SpecValue else identity(value)) for name, value in values.items()])
    return type(values), object()  # refused when the config is made


def _flights() -> SingleFlight[Key, Pipeline | None]:
    return SingleFlight(lambda key: "the same program")
