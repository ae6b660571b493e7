"""``Program``: one kernel, its memory and its launch shape, as an immutable value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidInput, UnknownBuffer
from vyre.domain.frozen import frozen
from vyre.domain.ir.buffers import (
    DEFAULT_KIND,
    NO_HINTS,
    Access,
    Buffer,
    BufferHints,
    CacheLocality,
    MemoryKind,
    abi_order,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.stmt import Body
from vyre.domain.lazy_names import FunctionAbove
from vyre.domain.names import BackendId, Dim3, OpId
from vyre.domain.printable import one_line, shown

if TYPE_CHECKING:
    from vyre.domain.ir.definitions import Definition
    from vyre.domain.ir.size_parameters import SizeParameter

__all__ = [
    "DEFAULT_KIND",
    "NO_HINTS",
    "Access",
    "BackendId",
    "Buffer",
    "BufferHints",
    "CacheLocality",
    "Dim3",
    "MemoryKind",
    "OpId",
    "Program",
    "ProgramLike",
    "ProgramSource",
    "kept_with_program",
    "program_of",
]

F = TypeVar("F", bound=Callable[..., Any])


@frozen(eq=False, repr=False)
class Program(Node):
    """A kernel: buffers, workgroup size and body, and the definitions of the operations that it calls.

    ``name`` and ``non_composable`` are labels outside the digest.  ``sizes``: the parameters that hold sizes of arrays
    of a kernel in plain Python, which all forms and copies of the program keep.  The constructor checks
    nothing: ``vyre.validate`` does that and collects every error.
    """

    buffers: tuple[Buffer, ...]
    workgroup_size: Dim3
    body: Body
    name: str | None = None
    non_composable: bool = False
    definitions: tuple[Definition, ...] = ()
    # Not compared: what callers need not pass, because the arrays that they pass tell it.
    sizes: tuple[SizeParameter, ...] = field(default=(), kw_only=True)
    # Not an argument: `dataclasses.replace` must not copy the facts of one program to another.
    _cache: dict[str, object] = field(default_factory=dict, init=False)

    @property
    def program(self) -> Program:
        """Returns the program itself, so that whatever stands for a program has its program here."""
        return self

    def buffer(self, name: str) -> Buffer:
        """Returns the buffer of that name; raises ``UnknownBuffer``, which is a ``KeyError``."""
        try:
            return self.buffers_by_name[name]
        except (KeyError, TypeError):
            raise self._unknown_buffer(name) from None

    def _unknown_buffer(self, name: object) -> UnknownBuffer:
        from vyre.domain.ir.caller import outside  # only for the error

        known = ", ".join(f"`{one_line(declared)}`" for declared in self.buffers_by_name)
        return UnknownBuffer(
            f"the program has no buffer {shown(name)}",
            fix=f"its buffers are {known}." if known else "it declares none.",
            loc=outside(),
        )

    @property
    def buffers_by_name(self) -> Mapping[str, Buffer]:
        """Returns the first declaration of each name."""
        buffers = self._cache.get("buffers_by_name")
        if buffers is None:
            buffers = {b.name: b for b in reversed(self.buffers)}
            self._cache["buffers_by_name"] = buffers
        return buffers  # type: ignore[return-value]

    @property
    def abi_buffers(self) -> tuple[Buffer, ...]:
        """Returns the non-workgroup buffers in ascending binding number."""
        buffers = self._cache.get("abi_buffers")
        if buffers is None:
            buffers = self._cache["abi_buffers"] = abi_order(self.buffers)
        return buffers  # type: ignore[return-value]

    # Written forms and identity: functions of modules above, imported on first use.

    @property
    def digest(self) -> bytes:
        """Returns the BLAKE3-256 digest, 32 bytes, of everything that can change a result; names, labels and hints
        are excluded.

        Raises ``InvalidProgram`` if a name in the program does not resolve.
        """
        return _digest(self)

    def to_text(self) -> str:
        """Returns the program as ``.vyre`` text; ``from_text`` is the inverse."""
        return _to_text(self)

    @classmethod
    def from_text(cls, text: str, filename: str = "<text>") -> Program:
        """Returns the program of ``.vyre`` text, with source locations in ``filename``; raises ``MalformedText``."""
        expect("text", text, str, "a text", InvalidInput)
        expect("filename", filename, str, "a name", InvalidInput)
        return _from_text(text, filename, cls)

    def to_wire(self, *, locations: bool = False) -> bytes:
        """Returns the program as ``.vyrb`` bytes, with the source locations of its nodes if ``locations`` says so.

        Raises ``InvalidProgram`` if a name does not resolve.
        """
        return _to_wire(self, locations)

    @classmethod
    def from_wire(cls, data: bytes | bytearray | memoryview) -> Program:
        """Returns the program of ``.vyrb`` bytes; raises ``MalformedWire``."""
        expect("data", data, (bytes, bytearray, memoryview), "bytes", InvalidInput)
        return _from_wire(data, cls)

    def to_json(self, *, locations: bool = False) -> dict[str, Any]:
        """Returns the program as a JSON value of the format ``vyre-program/5``, with the source locations of its nodes
        if ``locations`` says so.
        """
        return _to_json(self, locations)

    @classmethod
    def from_json(cls, value: object) -> Program:
        """Returns the program of a JSON value of the format ``vyre-program/5``; raises ``MalformedJson``."""
        return _from_json(value, cls)

    def _repr_html_(self) -> str:
        """Returns a piece of HTML for notebooks."""
        return _view(self)

    def __repr__(self) -> str:
        wg = ",".join(map(str, self.workgroup_size))
        return f"<Program {self.name or 'unnamed'} workgroup={wg} buffers={len(self.buffers)}>"


_digest: Final[FunctionAbove[[Program], bytes]] = FunctionAbove("Program.digest")
_to_text: Final[FunctionAbove[[Program], str]] = FunctionAbove("Program.to_text")
_from_text: Final[FunctionAbove[[str, str, type[Program]], Program]] = FunctionAbove("Program.from_text")
_to_wire: Final[FunctionAbove[[Program, bool], bytes]] = FunctionAbove("Program.to_wire")
_from_wire: Final[FunctionAbove[[bytes | bytearray | memoryview, type[Program]], Program]] = FunctionAbove(
    "Program.from_wire"
)
_to_json: Final[FunctionAbove[[Program, bool], dict[str, Any]]] = FunctionAbove("Program.to_json")
_from_json: Final[FunctionAbove[[object, type[Program]], Program]] = FunctionAbove("Program.from_json")
_view: Final[FunctionAbove[[Program], str]] = FunctionAbove("Program._repr_html_")


class ProgramSource:
    """Something that stands for a program wherever one is taken: a kernel in plain Python."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """Returns the program.  Raises ``VyreError`` where there is none."""


def kept_with_program(key: str) -> Callable[[F], F]:
    """Returns a decorator for functions of a program alone, which compute once: the program keeps the result under
    ``key``.
    """

    def decorated(compute: F) -> F:
        @wraps(compute)
        def kept(program: Program) -> Any:
            known = program._cache
            if key not in known:
                known[key] = compute(program)
            return known[key]

        return cast("F", kept)

    return decorated


ProgramLike: TypeAlias = Program | ProgramSource
"""A program, or a kernel in plain Python that stands for one."""


def program_of(kernel: Any) -> Any:
    """Returns the program of a kernel, and anything else unchanged."""
    return kernel.program if isinstance(kernel, ProgramSource) else kernel
