"""The inputs of queries: what they share, which is bound once, and the rows of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.app.host_arrays import HostInputs
from vyre.app.resident import ResidentArray, make_resident
from vyre.app.resident_dispatch import check_residents
from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidInput
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.program import Program
from vyre.domain.printable import shown
from vyre.ports.requests import HostBytes

if TYPE_CHECKING:
    from vyre.app.lease import BackendLease
    from vyre.app.pipeline import Argument


class Columns(NamedTuple):
    """The inputs of a call.

    ``own`` holds the bytes of the inputs that have a row for each query, by name, ``shapes`` the shapes of their rows,
    and ``numbers`` the bytes of the parameters that all queries of the call take.
    """

    queries: int
    own: dict[str, HostBytes]
    shapes: dict[str, tuple[int, ...]]
    numbers: dict[str, bytes]

    @property
    def key(self) -> tuple[object, ...]:
        """Returns what calls that run alike have in common."""
        return self.queries, tuple((name, view.nbytes) for name, view in self.own.items()), tuple(self.numbers.items())

    def row(self, name: str, query: int) -> HostBytes:
        """Returns the bytes of an input of one query."""
        view = self.own[name]
        nbytes = view.nbytes // self.queries
        return view[query * nbytes : (query + 1) * nbytes]


class SharedInputs:
    """The inputs that all queries share: ``arrays`` in the memory of the device, of ``nbytes`` in all, and the bytes of
    ``numbers``, by name.

    Data of the host become resident; ``close`` frees those and leaves the arrays of the caller alone.
    """

    def __init__(self, lease: BackendLease, program: Program, shared: Mapping[str, Argument]) -> None:
        expect("shared", shared, Mapping, "a mapping from names to what all queries share", InvalidInput)
        self.inputs: Final = HostInputs(program)
        self.arrays: Final[dict[str, ResidentArray]] = {}
        self.numbers: Final[dict[str, bytes]] = {}
        self._lease = lease
        self._buffers = {buffer.name: buffer for buffer in program.abi_buffers}
        self._uploaded: list[ResidentArray] = []
        try:
            for name, value in shared.items():
                self._share(name, value)
            check_residents(lease, program, self.arrays)
            if not any(array.nbytes for array in self.arrays.values()):
                raise InvalidInput(
                    "the queries share no memory", fix="name at least one array in shared, or use dispatch_many."
                )
        except BaseException:
            self.close()
            raise
        self.names: Final = frozenset((*self.arrays, *self.numbers))
        self.nbytes: Final = sum(array.nbytes for array in self.arrays.values())
        self._open = dict.fromkeys(name for name in self.inputs.names if name not in self.names)
        """The names of the other inputs, in binding order."""

    def close(self) -> None:
        """Frees the memory that was made here; idempotent."""
        for array in self._uploaded:
            array.close()

    def columns(self, columns: Mapping[str, Argument]) -> Columns:
        """Returns the inputs of a call, converted and checked.  Raises ``InvalidInput``."""
        own = Columns(0, {}, {}, {})
        rows: dict[str, int] = {}
        for name, value in self._values(columns):
            self._add(self._buffers[name], value, own, rows)
        return own._replace(queries=_count_of(rows))

    def _values(self, columns: Mapping[str, Argument]) -> Iterable[tuple[str, object]]:
        """Returns the inputs that are not shared, with their names, in binding order."""
        if type(columns) is dict and columns.keys() == self._open.keys():
            return [(name, columns[name]) for name in self._open]
        expect("columns", columns, Mapping, "a mapping from names to rows", InvalidInput)
        shared: dict[str, object] = {**self.arrays, **self.numbers}
        for name in columns:
            if name in shared:
                raise InvalidInput(f"columns: {shown(name)} is shared", fix="leave it out.")
        names = self.inputs.names
        values = self.inputs.values({n: value for n, value in shared.items() if n in names} | dict(columns))
        return [(name, value) for name, value in zip(names, values, strict=True) if name in self._open]

    def _share(self, name: str, value: Argument) -> None:
        buffer = self._buffers.get(name)
        if buffer is None:
            known = ", ".join(f"`{each}`" for each in self._buffers)
            raise InvalidInput(f"shared: {shown(name)} is no buffer", fix=f"the buffers are {known}.")
        if isinstance(value, ResidentArray):
            self.arrays[name] = value
        elif buffer.is_output:
            raise InvalidInput(
                f"shared: output `{name}` is no resident array",
                fix="leave it out, so that each query has one, or bind it to session.resident(...).",
            )
        elif buffer.is_push:
            self.numbers[name] = bytes(self.inputs.view(name, value))
        else:
            array = make_resident(self._lease.backend.require_memory(), self.inputs.view(name, value), name)
            array.buffer.quiet()
            self._uploaded.append(array)
            self._lease.adopt(array)
            self.arrays[name] = array

    def _add(self, buffer: Buffer, value: object, columns: Columns, rows: dict[str, int]) -> None:
        """Adds one input of a call."""
        name, convert = buffer.name, self.inputs.column if buffer.is_push else self.inputs.view
        shape = getattr(value, "shape", None)
        axes = len(shape) if isinstance(shape, tuple) else 0
        if buffer.is_push and not axes:
            columns.numbers[name] = bytes(self.inputs.view(name, value))
            return
        if isinstance(value, ResidentArray) or axes < (1 if buffer.is_push else 2):
            raise InvalidInput(
                f"`{name}` has no row for each query: {shown(value)}",
                fix="pass an array of the host with one more axis, or name it in shared.",
            )
        assert isinstance(shape, tuple)
        rows[name], columns.shapes[name], columns.own[name] = shape[0], shape[1:], convert(name, value)


def _count_of(rows: Mapping[str, int]) -> int:
    """Returns the number of queries, on which all columns agree."""
    if not rows:
        raise InvalidInput(
            "no column has a row for each query", fix="pass an array with one more axis than a query takes."
        )
    first, count = next(iter(rows.items()))
    for name, queries in rows.items():
        if queries != count:
            raise InvalidInput(
                f"`{name}` has {queries} rows, and `{first}` {count}", fix="give every column one row for each query."
            )
    if not count:
        raise InvalidInput(f"`{first}` has no row", fix="give at least one query.")
    return count
