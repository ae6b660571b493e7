"""``Operation`` and ``Dialect``: what is known of an operation, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.domain.errors import DuplicateOperation, InvalidDialect
from vyre.domain.frozen import frozen
from vyre.domain.ir.definitions import Definition, Version, is_operation_id
from vyre.domain.ir.expr import Native, Var
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import shown

if TYPE_CHECKING:
    from vyre.domain.dialects.laws.law import Law


class Category(Enum):
    """Where the meaning of an operation comes from; the values are the letters in manifests."""

    COMPOSITE = "A"
    """From its definition."""
    EXTENSION = "B"
    """From a backend that knows it."""
    INTRINSIC = "C"
    """From the language itself."""


class TypedName(NamedTuple):
    """An input or the result of an operation: its name, the types that it may have, and whether it is an attribute."""

    name: str
    types: frozenset[ScalarType]
    is_attribute: bool = False

    def __str__(self) -> str:
        types = " | ".join(dtype.text for dtype in ScalarType if dtype in self.types)
        return f"{self.name}: {types}{' const' * self.is_attribute}"


class Signature(NamedTuple):
    """The inputs of an operation and its result."""

    inputs: tuple[TypedName, ...]
    result: TypedName

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.inputs))}) -> {str(self.result).partition(': ')[2]}"


class Lowering(NamedTuple):
    """Another way to compute an operation on one backend, written for the definition with the digest ``definition``.

    ``definitions`` ends with the replacement, which has the id and the types of the operation, behind the definitions
    that it calls.  It is used only after it passed its check on that backend.
    """

    definition: bytes
    definitions: tuple[Definition, ...]

    @classmethod
    def of(cls, definition: Definition, *definitions: Definition) -> Lowering:
        """Returns the lowering of a definition: its replacement, behind the definitions that it calls."""
        return cls(definition.digest, definitions)

    @classmethod
    def native(cls, definition: Definition, language: str, text: str) -> Lowering:
        """Returns the lowering of a definition to instructions of a language: ``ptx``, ``llvm`` or ``opencl``.

        Raises ``InvalidDialect``, with the line, for a text that is more than straight-line instructions over the
        operands and registers of its own, and for operands or a result that are no numbers.
        """
        from vyre.domain.dialects.native_text import checked_text  # few operations have native text

        checked = checked_text(definition, language, text)
        arguments = tuple([Var(each.name) for each in definition.parameters])
        result = Native(definition.result_type, language, checked, arguments)
        return cls.of(definition, replace(definition, body=(), result=result))


_NO_LOWERINGS: Final[Mapping[str, Lowering]] = MappingProxyType({})


@frozen(kw_only=True)
class Operation:
    """An operation as data.

    ``definition``: its body; None where the language or a backend gives the meaning.  ``laws``: equations that hold for
    it, and ``law_texts`` those that a manifest states.  ``cost``: in additions of u32, for those who choose between
    forms of a program.  ``lowerings``: by the id of the backend, such as ``cpu``.  Raises ``InvalidDialect`` for a
    lowering whose types or id are others than those of the definition.
    """

    id: str
    signature: Signature
    category: Category
    definition: Definition | None = None
    laws: tuple[Law, ...] = ()
    law_texts: tuple[str, ...] = ()
    cost: int = 1
    lowerings: Mapping[str, Lowering] = field(default_factory=lambda: _NO_LOWERINGS)
    summary: str = ""

    def __post_init__(self) -> None:
        for target, lowering in self.lowerings.items():
            if self.definition is None or not lowering.definitions or not _is_of_type(lowering, self.definition):
                raise InvalidDialect(
                    f"the lowering of `{self.id}` for {shown(target)} is no replacement of its definition",
                    fix="end it with a definition of the same id, with the same types of parameters and result.",
                )

    @classmethod
    def of(
        cls,
        definition: Definition,
        *,
        laws: tuple[Law, ...] = (),
        law_texts: tuple[str, ...] = (),
        cost: int = 1,
        lowerings: Mapping[str, Lowering] = _NO_LOWERINGS,
        summary: str = "",
    ) -> Operation:
        """Returns the operation of a definition."""
        inputs = tuple(
            [TypedName(each.name, frozenset({each.dtype}), each.is_attribute) for each in definition.parameters]
        )
        signature = Signature(inputs, TypedName("result", frozenset({definition.result_type})))
        return cls(
            id=definition.id,
            signature=signature,
            category=Category.COMPOSITE,
            definition=definition,
            laws=laws,
            law_texts=law_texts,
            cost=cost,
            lowerings=lowerings,
            summary=summary,
        )

    def lowering(self, backend: str) -> Lowering | None:
        """Returns the lowering for a backend, if it was written for the definition that the operation has."""
        lowering = self.lowerings.get(backend)
        if lowering is None or self.definition is None or lowering.definition != self.definition.digest:
            return None
        return lowering


def _is_of_type(lowering: Lowering, definition: Definition) -> bool:
    called = lowering.definitions[-1]
    types, wanted = ([(each.dtype, each.is_attribute) for each in other.parameters] for other in (called, definition))
    return called.id == definition.id and types == wanted and called.result_type is definition.result_type


@frozen
class Dialect:
    """Operations that are registered together.  Their ids begin with the id of the dialect and a dot.

    Raises ``InvalidDialect`` for another id, and ``DuplicateOperation`` for one that occurs twice.
    """

    id: str
    version: Version
    operations: tuple[Operation, ...]

    def __post_init__(self) -> None:
        if not is_operation_id(f"{self.id}.x"):
            raise InvalidDialect(f"{shown(self.id)} is no id of a dialect", fix="use identifiers joined by dots.")
        seen: set[str] = set()
        for operation in self.operations:
            if not is_operation_id(operation.id) or not operation.id.startswith(f"{self.id}."):
                raise InvalidDialect(
                    f"{shown(operation.id)} is no id of an operation of `{self.id}`",
                    fix=f"call it `{self.id}.` and a name.",
                )
            if operation.definition is not None and operation.definition.id != operation.id:
                raise InvalidDialect(
                    f"`{operation.id}` has the definition of {shown(operation.definition.id)}",
                    fix="give both the same id.",
                )
            if operation.id in seen:
                raise DuplicateOperation(operation=operation.id, first=self.id, second=self.id)
            seen.add(operation.id)
