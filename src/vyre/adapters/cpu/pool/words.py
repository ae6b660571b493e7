"""The words of the language in which the runtime of the worker threads is written.

The runtime is a program of Python's syntax that ``translation`` turns into LLVM text; no function of it is ever called
by Python.  It means what it would mean in C:

- A parameter of a class of ``layout`` is the address of such a record.  ``job.state`` is a word in memory, ``job[1]``
  the record behind.  Calling the class makes a record that lives as long as the call of the function.
- Numbers are ``u32``, ``i32``, ``u64`` and ``i64``.  They wrap around; two that are computed with each other have the
  same type, and a constant takes that of the other one.  ``cast(u64, x)`` converts: a number of 32 bits is continued
  with zeros, one of 64 bits cut, and an address becomes a number.
- A parameter ``Shared[T]`` is the caller's word itself, which other threads may change meanwhile.
- Reading and assigning a word of memory is not atomic.  The functions below are.
- A variable has the type of what is assigned to it first.  Parameters are not assigned to.
- In ``a if c else b`` both values are computed.  ``and`` and ``or`` look at the second operand only where it counts.
- A loop over what is known beforehand is written out, once for each element.  Any other ``range`` counts as it runs.
- An ``if`` whose condition is known beforehand, as those on ``TARGET`` are, leaves only one of its branches.
- A function whose body is ``...`` is one of the C library, or of LLVM where its name begins with ``llvm``.
- Functions whose names begin with ``pool`` are the entry points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, Never, Self, TypeAlias, TypeVar, overload

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
i32: TypeAlias = int
u32: TypeAlias = int
i64: TypeAlias = int
u64: TypeAlias = int
Shared: TypeAlias = Annotated[T, "the caller's word"]
if TYPE_CHECKING:
    NULL: Never
else:
    NULL = None
"""The address of nothing.  ``if not job`` asks for it."""

RELAXED: Final = "monotonic"
ACQUIRE: Final = "acquire"
SEQ_CST: Final = "seq_cst"
"""The orders of memory, as in C."""


def inline(function: F) -> F:
    """Marks a function that becomes a part of those which call it."""
    return function


# ---------------------------------------------------------------- records
class Inline(Generic[T]):
    """Records or words that lie within a record: ``T`` is the type of the first one's address."""

    @overload
    def __get__(self, record: None, owner: type) -> int: ...
    @overload
    def __get__(self, record: object, owner: type) -> T: ...
    def __get__(self, record: object, owner: type) -> object:
        raise NotImplementedError


class Field(Inline[T]):
    """A word of a record: a number, or the address of something."""

    def __set__(self, record: object, value: T) -> None:
        raise NotImplementedError


class Pointer(Generic[T]):
    """The address of words: ``words[0]`` is the first."""

    def __getitem__(self, index: int) -> T:
        raise NotImplementedError

    def __setitem__(self, index: int, value: T) -> None:
        raise NotImplementedError


class Record:
    """A record of ``BYTES`` bytes; in the program ``record[1]`` is the one behind it."""

    BYTES: ClassVar[int]

    def __getitem__(self, index: int) -> Self:
        raise NotImplementedError


class Memory(Record):
    """Bytes: ``memory[n]`` is the address n bytes behind."""

    BYTES: ClassVar[int] = 1


def at(place: int) -> Any:
    """Declares the place of a field, in bytes from the beginning of its record."""
    return place


# ---------------------------------------------------------------- words that several threads use
def load(word: T, order: str = SEQ_CST) -> T:
    """Returns the value of a word."""
    raise NotImplementedError


def store(word: T, value: T, order: str = SEQ_CST) -> None:
    """Sets a word."""
    raise NotImplementedError


def fetch_add(word: int, value: int, order: str = SEQ_CST) -> int:
    """Adds to a word and returns its old value, as ``fetch_sub``, ``fetch_and`` and ``fetch_or`` do."""
    raise NotImplementedError


fetch_sub: Final = fetch_add
fetch_and: Final = fetch_add
fetch_or: Final = fetch_add


def exchange(word: int, value: int, order: str = SEQ_CST) -> int:
    """Sets a word and returns its old value."""
    raise NotImplementedError


def compare_exchange(word: int, expected: int, value: int) -> bool:
    """Sets a word that has the expected value, and returns whether it had."""
    raise NotImplementedError


# ---------------------------------------------------------------- values
def address(word: T) -> Pointer[T]:
    """Returns the address of a word."""
    raise NotImplementedError


def cast(kind: type[T], value: object) -> T:
    """Returns the number or address as one of another type."""
    raise NotImplementedError


def combine(kind: str, operation: str, into: Memory, other: Memory) -> None:
    """Replaces the value of an LLVM type at ``into`` by the result of an operation of ``layout.MERGES``."""
    raise NotImplementedError
