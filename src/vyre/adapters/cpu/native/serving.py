"""The compile server: ``python -m vyre.adapters.cpu.native.serving PARENT`` answers requests until its parent ends.

``PARENT`` is the process id of the parent.  Requests come over standard input and answers go over standard output; what
LLVM prints goes to standard error.  The process ends when its input ends, and when its parent is gone although another
process holds the other end of the pipe.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import BinaryIO, Final

from vyre.adapters.cpu.native.compilation import compile_object, prepare
from vyre.adapters.cpu.native.messages import Answer, Broken, Request, Status, encode_answer, read_request
from vyre.domain.errors import BackendUnavailable, KernelCompileFailed, VyreError

LOOK_S: Final = 1.0
"""How often the server looks whether its parent still lives, in seconds."""


def main() -> None:
    """Serves the process whose id is the only argument."""
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process if it ends
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints may get among the answers
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    serve(sys.stdin.buffer, answers)
    os._exit(0)  # LLVM has nothing to save, and to take it down needs time


def _end_with(parent: int) -> None:
    while os.name != "posix" or os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(0)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers every request until ``requests`` ends, or is no stream of requests."""
    _send(answers, Answer(Status.READY, b""))
    with suppress(BackendUnavailable):  # the answer to the first request tells
        prepare()
    while True:
        try:
            request = read_request(requests)
        except Broken:
            return
        if request is None:
            return
        _send(answers, _answer(request))


def _answer(request: Request) -> Answer:
    try:
        return Answer(Status.OBJECT, compile_object(request.text, request.features, request.effort))
    except KernelCompileFailed as error:
        return Answer(Status.FAILED, error.compiler_log.encode())
    except BackendUnavailable as error:
        return Answer(Status.UNAVAILABLE, str(error).encode())
    except (VyreError, RuntimeError, MemoryError) as error:
        return Answer(Status.FAILED, f"{type(error).__name__}: {error}".encode())


def _send(answers: BinaryIO, answer: Answer) -> None:
    try:
        answers.write(encode_answer(answer))
        answers.flush()
    except OSError:  # the parent has ended
        os._exit(0)


if __name__ == "__main__":
    main()
