"""Objects of which there is one only: they own memory, code, threads, locks or handles that a copy would free twice."""

from __future__ import annotations

from typing import NoReturn, Self, SupportsIndex

from vyre.domain.errors import DispatchFailed, NotCopied


class Unique:
    """A base of classes whose objects are neither copied nor pickled.

    The refusal comes before ``copy`` or ``pickle`` have made an empty object, which would free at its end what it
    does not own.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise NotCopied(
            f"{type(self).__name__} is copied or pickled, and owns memory, threads or handles of this process",
            fix="hand on the object itself, and to other processes programs, kernels, arrays and results.",
        )


class Closing(Unique):
    """A base of those that are closed at the end of a ``with`` block, however it ends."""

    __slots__ = ()

    def close(self) -> None:
        """Gives back what the object owns."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def used_in_a_fork(what: str, opened_in: int, used_in: int) -> DispatchFailed:
    """Returns the error for an object that process ``opened_in`` opened and its fork ``used_in`` uses."""
    return DispatchFailed(
        f"{what} was opened in process {opened_in} and is used in its fork {used_in}",
        fix="open sessions after forking, or start workers with the `spawn` method.",
    )
