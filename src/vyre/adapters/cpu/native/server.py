"""Compilations in a process of their own, where long ones hold another llvmlite's lock and LLVM may crash.

One helper process serves all threads of a process, one module at a time.  It starts when it is first needed, ends with
this process, however that ends, and starts again after a crash; the request that was under way then fails with a typed
error.  A fork has its own helper.
"""

from __future__ import annotations

import atexit
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import PurePath
from typing import IO, Final, cast

from vyre.adapters.cpu.native.compilation import BACKEND, Effort
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.adapters.cpu.native.messages import MODULE, Answer, Broken, Request, Status, encode_request, read_answer
from vyre.adapters.forks import process_lock, tell_in_forks
from vyre.domain.errors import BackendUnavailable, KernelCompileFailed
from vyre.domain.unique import Unique
from vyre.ports.interrupts import sealed

TIMEOUT_S: Final = 300.0
"""The time limit of one compilation, in seconds, that of waiting for its turn included."""

START_S: Final = 60.0
"""The time limit for the start of the helper process, in seconds."""

_END_S: Final = 10.0
_MOST_LOG: Final = 4096


class CompileServer(Unique):
    """A helper process that compiles, started on first need; ``close`` ends it.  All methods may be called at once by
    several threads.

    ``command`` replaces the command line of the helper process, to which the id of this process is appended.
    """

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = None if command is None else tuple(command)
        self._turn = process_lock()
        self._asks = False
        self._helper: _Helper | None = None
        self._closed = False
        tell_in_forks(self)

    @property
    def process_id(self) -> int | None:
        """Returns the id of the helper process, or None if none runs."""
        helper = self._helper
        return None if helper is None or not helper.runs() else helper.process.pid

    def compile_object(
        self, text: str, features: CpuFeatures, effort: Effort = Effort.FULL, *, timeout_s: float = TIMEOUT_S
    ) -> bytes:
        """Returns what ``compilation.compile_object`` returns for this system, compiled in the helper process.

        Raises ``KernelCompileFailed`` if LLVM refuses the text, crashes, or has not finished ``timeout_s`` seconds
        after the call, and ``BackendUnavailable`` if the helper process does not start, llvmlite is not installed
        there, or this server is closed.
        """
        ends = time.monotonic() + timeout_s
        if not self._turn.acquire(timeout=max(timeout_s, 0.0)):
            raise _took_too_long(timeout_s)
        try:
            if self._asks:  # a finaliser, or a signal handler, of the thread that waits for an answer
                with closing(CompileServer(self._command)) as another:
                    return another.compile_object(text, features, effort, timeout_s=timeout_s)
            try:
                self._asks = True
                answer = self._ask(Request(text, features, effort), ends, timeout_s)
            finally:
                self._asks = False
        finally:
            self._turn.release()
        if answer.status is Status.OBJECT:
            return answer.content
        said = answer.content.decode(errors="replace")
        if answer.status is Status.UNAVAILABLE:
            raise BackendUnavailable(said)
        raise KernelCompileFailed(backend=BACKEND, compiler_log=said)

    def _ask(self, request: Request, ends: float, timeout_s: float) -> Answer:
        if self._closed:
            raise _closed()
        helper = self._helper
        if helper is not None and (helper.expired or not helper.runs()):
            helper.end()
            helper = None
        if helper is None:
            self._helper = helper = _Helper(self._command or _command())
        try:
            return helper.ask(request, ends)
        except Broken:
            self._helper = None
            reason = helper.last_words()
            if self._closed:
                raise _closed() from None
            if helper.expired:
                raise _took_too_long(timeout_s) from None
            if not helper.ready:
                raise BackendUnavailable(
                    f"backend `{BACKEND}`: its compile server does not start: {reason}",
                    fix="see whether this Python runs by itself; light effort needs no server.",
                ) from None
            raise KernelCompileFailed(backend=BACKEND, compiler_log=f"LLVM crashed: {reason}") from None
        except BaseException:  # an interrupt: the answer would be taken for that of the next request
            self._helper = None
            helper.end()
            raise

    def close(self) -> None:
        """Ends the helper process, with a compilation that is under way.  Closing twice is allowed."""
        self._closed = True
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.end()

    def inherited(self) -> None:
        """Leaves the helper to the process that this one was forked from; the next compilation starts another one."""
        self._asks = False
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.abandon()


class _Helper:
    """One run of the helper process.  ``ready`` is set by its first message, ``expired`` if it was ended for time."""

    def __init__(self, command: Sequence[str]) -> None:
        self.ready = False
        self.expired = False
        self._asked = False
        self._judging = threading.Lock()
        try:
            self.said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``end``
            self.process = subprocess.Popen(
                [*command, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.said,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                process_group=None if sys.platform == "win32" else 0,  # Ctrl-C on a terminal is for the parent alone
            )
        except OSError as error:
            if hasattr(self, "said"):
                self.said.close()
            raise BackendUnavailable(
                f"backend `{BACKEND}`: its compile server does not start: {error}",
                fix="let this process start others and open files; light effort needs no server.",
            ) from error

    def runs(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: Request, ends: float) -> Answer:
        """Returns the answer to ``request``.  Raises ``Broken`` if the process ended or was ended for time."""
        assert self.process.stdin is not None and self.process.stdout is not None
        watch = threading.Timer(max(ends - time.monotonic(), 0.0), self._expire)
        watch.daemon = True
        self._asked = True
        watch.start()
        try:
            if not self.ready:
                self._wait_until_ready()
            self.said.truncate(0)
            self.process.stdin.write(encode_request(request))
            self.process.stdin.flush()
            return read_answer(self.process.stdout)
        except (OSError, ValueError) as error:  # a pipe without another end, or one closed by ``end``
            raise Broken(str(error)) from error
        finally:
            watch.cancel()
            with self._judging, sealed:
                self._asked = False

    def _wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        slow = threading.Timer(START_S, self.process.kill)
        slow.daemon = True
        slow.start()
        try:
            if read_answer(self.process.stdout).status is not Status.READY:
                raise Broken("it does not say that it is ready")
        finally:
            slow.cancel()
        self.ready = True

    def _expire(self) -> None:
        with self._judging, sealed:
            if self._asked:
                self.expired = True
                self.process.kill()

    def last_words(self) -> str:
        """Ends the process and returns how it ended, and the end of what it printed."""
        status = self._wait()
        try:
            size = self.said.seek(0, os.SEEK_END)
            self.said.seek(max(size - _MOST_LOG, 0))
            printed = self.said.read().decode(errors="replace").strip()
        except (OSError, ValueError):
            printed = ""
        self.end()
        return f"{_ending(status)}{': ' if printed else ''}{printed}"

    def _wait(self) -> int | None:
        try:
            self.process.wait(_END_S / 10)  # it closed its pipe because it ends
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None
        return self.process.returncode

    def end(self) -> None:
        """Kills the process and waits for its end."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.said):
            try:
                if stream is not None:
                    stream.close()
            except OSError:  # what was not written yet has no reader any more
                continue
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:  # the system does not let it end yet
            return

    def abandon(self) -> None:
        """Closes the pipes in a fork, and lets the process run."""
        for stream in (self.process.stdin, self.process.stdout, self.said):
            cast("io.BufferedWriter | io.BufferedReader", stream).raw.close()  # not what a thread has in its buffer
        self.process.returncode = 0  # it is no child of this process, and ``Popen`` has nothing to wait for


def _command() -> tuple[str, ...]:
    name = PurePath(sys.executable or "").name.lower()
    if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
        raise BackendUnavailable(
            f"backend `{BACKEND}`: its compile server cannot run: {sys.executable!r} is no Python interpreter",
            fix="set `sys.executable` to one; light effort needs no server.",
        )
    return (sys.executable, "-P", "-m", MODULE)


def _closed() -> BackendUnavailable:
    return BackendUnavailable(f"backend `{BACKEND}`: its compile server is closed", fix="open a new session.")


def _took_too_long(timeout_s: float) -> KernelCompileFailed:
    return KernelCompileFailed(backend=BACKEND, compiler_log=f"the compilation took longer than {timeout_s:g} seconds")


def _ending(status: int | None) -> str:
    if status is None:
        return "it had to be ended"
    if status < 0:
        try:
            return f"signal {signal.Signals(-status).name}"
        except ValueError:
            return f"signal {-status}"
    return f"exit code {status}"


_SHARED: Final = CompileServer()


def shared_server() -> CompileServer:
    """Returns the server that all sessions of this process use."""
    return _SHARED


atexit.register(_SHARED.close)
