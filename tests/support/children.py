"""Functions called in a fork of this process, whose crash or endless loop the caller survives."""

from __future__ import annotations

import faulthandler
import mmap
import os
import pickle
import select
import signal
import tempfile
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_ROOM: Final = 1 << 14
_MOST_SAID: Final = 2000


class Died(Exception):
    """A fork ended without an answer: ``kind`` is the name of a signal, ``timeout`` or an exit status.

    ``noted`` is what it had noted last, and ``said`` the end of what it had written to its standard error.
    """

    def __init__(self, kind: str, noted: str, said: str) -> None:
        super().__init__(f"{kind} while {noted or 'it began'}: {said or 'it said nothing'}")
        self.kind: Final = kind
        self.noted: Final = noted
        self.said: Final = said


class Notes:
    """What a fork is doing, in memory that its parent can read after its end."""

    def __init__(self) -> None:
        self._memory: Final = mmap.mmap(-1, _ROOM)

    def note(self, text: str) -> None:
        """Replaces the text."""
        data = text.encode(errors="replace")[: _ROOM - 1]
        self._memory[: len(data) + 1] = data + b"\0"

    @property
    def text(self) -> str:
        """The text that was noted last."""
        return self._memory[:].partition(b"\0")[0].decode(errors="replace")


class Fork(Generic[T]):
    """A running fork that calls ``function``; ``result`` waits for its end."""

    def __init__(self, function: Callable[[Notes], T], seconds: float) -> None:
        self._notes: Final = Notes()
        self._end: Final = time.monotonic() + seconds
        self._said: Final = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``result``
        self._pipe, writing = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            status = 1
            try:
                faulthandler.disable()
                os.close(self._pipe)
                os.dup2(self._said.fileno(), 2)
                data = pickle.dumps(_answer(function, self._notes))
                with os.fdopen(writing, "wb") as pipe:
                    pipe.write(data)
                status = 0
            finally:
                os._exit(status)
        os.close(writing)

    def result(self) -> T:
        """What the function returned.  Raises what it raised, and ``Died``."""
        data, kind = bytearray(), ""
        try:
            while True:
                left = self._end - time.monotonic()
                if left <= 0 or not select.select([self._pipe], [], [], left)[0]:
                    os.kill(self._process, signal.SIGKILL)
                    kind = "timeout"
                    break
                part = os.read(self._pipe, 1 << 16)
                if not part:
                    break
                data += part
        finally:
            os.close(self._pipe)
            status = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
            self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _MOST_SAID))
            said = self._said.read().decode(errors="replace").strip()
            self._said.close()
        if kind or status != 0:
            raise Died(
                kind or (signal.Signals(-status).name if status < 0 else f"exit {status}"), self._notes.text, said
            )
        answer, error = pickle.loads(data)
        if error is not None:
            raise error
        return answer  # type: ignore[no-any-return]


def in_fork(function: Callable[[Notes], T], seconds: float) -> T:
    """What ``function`` returns in a fork of this process.  Raises what it raises, and ``Died``."""
    return Fork(function, seconds).result()


def _answer(function: Callable[[Notes], T], notes: Notes) -> tuple[T | None, Exception | None]:
    try:
        return function(notes), None
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return None, RuntimeError(f"{type(error).__name__}: {error}")
        return None, error
