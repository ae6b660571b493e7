"""Terminal output of commands: text is escaped and fits the encoding of its stream; a failing stream ends the
command.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from contextvars import ContextVar
from enum import Enum
from functools import wraps
from typing import Final, ParamSpec, TextIO

from vyre.domain.float_mode import in_default_mode
from vyre.domain.printable import printable

OUTPUT_FAILED: Final = 4
"""Exit code if the output cannot be written, for example to a full disk."""
READER_GONE: Final = 141
"""Exit code if the reader of the output has closed the pipe: what a shell reports for a tool ended by SIGPIPE."""

_P = ParamSpec("_P")


def put(text: str) -> None:
    """Prints one or more lines, with unprintable characters escaped."""
    print(printable(text))


def complain(text: str) -> None:
    """Prints to standard error, with unprintable characters escaped; where it shows colours, errors have them."""
    shown = printable(text)
    print(_coloured(shown) if shows_colours(sys.stderr) else shown, file=sys.stderr)


# ---------------------------------------------------------------- colours
class Colours(Enum):
    """When output is coloured.  AUTO: on terminals, unless ``NO_COLOR`` is set or ``TERM`` is ``dumb``."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


COLOURS: Final[ContextVar[Colours]] = ContextVar("vyre_colours", default=Colours.AUTO)
"""The setting of the running command."""


def shows_colours(stream: TextIO) -> bool:
    """Returns whether text for this stream may have colours."""
    wanted = COLOURS.get()
    if wanted is not Colours.AUTO:
        return wanted is Colours.ALWAYS
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_PAINTED: Final = (
    (re.compile(r"^(error\[\w+\]):", re.MULTILINE), "\x1b[1;31m\\1\x1b[0m:"),
    (re.compile(r"^(warning\[\w+\]):", re.MULTILINE), "\x1b[1;33m\\1\x1b[0m:"),
    (re.compile(r"^(Fix:|  = help:)", re.MULTILINE), "\x1b[1;32m\\1\x1b[0m"),
    (re.compile(r"^([ |\t]*)(\^+)$", re.MULTILINE), "\\1\x1b[1;31m\\2\x1b[0m"),
)
"""The parts of an error that have a colour."""


def _coloured(text: str) -> str:
    for pattern, painted in _PAINTED:
        text = pattern.sub(painted, text)
    return text


def command(main: Callable[_P, int]) -> Callable[_P, int]:
    """Wraps ``main`` as a complete command: its output is escaped, and lost output changes the exit code.

    The exit code is that of ``main``, ``READER_GONE`` without a message if the reader of the output closed the pipe,
    and ``OUTPUT_FAILED`` with a message if the output is lost.
    """

    @in_default_mode
    @wraps(main)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> int:
        out, err = Outgoing(sys.stdout), Outgoing(sys.stderr, may_be_lost=True)
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = main(*args, **kwargs)
                out.flush()
            except OutputLost as lost:
                out.abandon()
                if lost.reader_gone:
                    code = READER_GONE
                else:
                    complain(f"cannot write the output: {lost}. Fix: free space, or send it somewhere else.")
                    code = OUTPUT_FAILED
            err.flush()
        return code

    return run


class OutputLost(Exception):
    """Output could not be written."""

    def __init__(self, error: OSError | None) -> None:
        super().__init__("standard output is closed" if error is None else error.strerror or str(error))
        self.reader_gone: bool = isinstance(error, BrokenPipeError)


class Outgoing(io.TextIOBase):
    r"""A text stream in front of another one, which may be closed (None).

    Characters that the encoding lacks are written as ``\xe9`` or ``\u2502``.  Writing raises ``OutputLost`` if the
    stream fails; with ``may_be_lost`` the failure is ignored, since there is no other stream to report it on.
    """

    def __init__(self, stream: TextIO | None, *, may_be_lost: bool = False) -> None:
        self._stream = stream
        self._may_be_lost = may_be_lost

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute
        """The encoding of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str, /) -> int:
        """Writes text, escaping characters that the encoding lacks; returns its length."""
        encoding = self.encoding
        fitting = text.encode(encoding, "backslashreplace").decode(encoding)
        self._attempt(lambda stream: stream.write(fitting), bool(text))
        return len(text)

    def flush(self) -> None:
        """Flushes the stream, if it is open: this object may be finalized after its stream was closed."""
        self._attempt(lambda stream: None if getattr(stream, "closed", False) else stream.flush(), False)

    def isatty(self) -> bool:
        """Returns whether the stream is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        """Returns the file descriptor of the stream; raises ``OSError`` if it is closed."""
        if self._stream is None:
            raise OSError("the stream is closed")
        return self._stream.fileno()

    def writable(self) -> bool:
        """Returns True."""
        return True

    def abandon(self) -> None:
        """Discards everything that the stream still buffers, also when the interpreter ends."""
        stream, self._stream = self._stream, None
        try:
            number = -1 if stream is None else stream.fileno()
        except OSError:  # a stream in memory
            return
        if number >= 0:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)

    def _attempt(self, work: Callable[[TextIO], object], matters: bool) -> None:
        if self._stream is None:
            if matters and not self._may_be_lost:
                raise OutputLost(None)
            return
        try:
            work(self._stream)
        except OSError as error:
            if not self._may_be_lost:
                raise OutputLost(error) from None
            self.abandon()
