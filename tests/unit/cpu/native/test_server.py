"""The compile server: it answers as the compiler here does, survives crashes, and ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import host
from vyre.adapters.cpu.native.server import CompileServer, shared_server
from vyre.domain.errors import BackendUnavailable, KernelCompileFailed

pytestmark = NEEDS_LLVM

SAME: Final = "define i32 @same(i32 %i) nounwind {\n  ret i32 %i\n}\n"
WRONG: Final = "define i32 @wrong(i64 %i) nounwind {\n  ret i32 %i\n}\n"
CRASHES: Final = 'define void @crashes() nounwind {\n  call void asm sideeffect "no instruction", ""()\n  ret void\n}\n'
"""Inline assembly at which LLVM ends the process that compiles it."""


@pytest.fixture
def server() -> Iterator[CompileServer]:
    server = CompileServer()
    yield server
    server.close()


@pytest.mark.parametrize("effort", Effort)
def test_the_server_compiles_as_this_process_does(server: CompileServer, effort: Effort) -> None:
    assert server.process_id is None
    assert server.compile_object(SAME, host(), effort) == compile_object(SAME, host(), effort)
    assert server.process_id not in (None, os.getpid())


def test_llvm_refuses_in_the_server_with_the_same_error(server: CompileServer) -> None:
    with pytest.raises(KernelCompileFailed) as there:
        server.compile_object(WRONG, host())
    with pytest.raises(KernelCompileFailed) as here:
        compile_object(WRONG, host(), Effort.FULL)
    assert there.value.compiler_log == here.value.compiler_log
    first = server.process_id
    server.compile_object(SAME, host())
    assert server.process_id == first


def test_a_crash_fails_its_request_alone(server: CompileServer) -> None:
    server.compile_object(SAME, host())
    first = server.process_id
    with pytest.raises(KernelCompileFailed, match=r"LLVM crashed: [^:]*: .*(instruction|asm)"):
        server.compile_object(CRASHES, host())
    assert server.process_id is None
    assert server.compile_object(SAME, host())
    assert server.process_id not in (None, first)


@pytest.mark.skipif(os.name != "posix", reason="there are no signals")
def test_a_killed_server_is_started_again(server: CompileServer) -> None:
    server.compile_object(SAME, host())
    first = server.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    waits_until(lambda: server.process_id is None)
    assert server.compile_object(SAME, host())


def test_many_threads_get_their_own_answers(server: CompileServer) -> None:
    texts = [SAME.replace("same", f"same_{number}") for number in range(24)]
    expected = [compile_object(text, host(), Effort.LIGHT) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: server.compile_object(text, host(), Effort.LIGHT), texts))
    assert found == expected


SILENT: Final = (sys.executable, "-c", "import time; time.sleep(600)")
BABBLING: Final = (sys.executable, "-c", "print('nothing that could be read')")


def test_a_compilation_ends_at_its_time_limit() -> None:
    server = CompileServer(SILENT)
    try:
        with pytest.raises(KernelCompileFailed, match=r"took longer than 0\.2 seconds"):
            server.compile_object(SAME, host(), timeout_s=0.2)
        assert server.process_id is None
    finally:
        server.close()


def test_waiting_for_the_turn_ends_at_the_time_limit_too() -> None:
    server = CompileServer(SILENT)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(server.compile_object, SAME, host(), timeout_s=LIMIT_S)
        waits_until(lambda: server.process_id is not None)
        with pytest.raises(KernelCompileFailed, match="took longer than 0 seconds"):
            server.compile_object(SAME, host(), timeout_s=0)
        server.close()
        with pytest.raises(BackendUnavailable, match="its compile server is closed"):
            waits.result(LIMIT_S)


@pytest.mark.parametrize("command", [BABBLING, ("/nonexistent/python",)], ids=["babbling", "missing"])
def test_a_helper_that_does_not_start_is_told(command: tuple[str, ...]) -> None:
    server = CompileServer(command)
    try:
        with pytest.raises(BackendUnavailable, match="its compile server does not start: "):
            server.compile_object(SAME, host())
    finally:
        server.close()


def test_only_an_interpreter_is_started(monkeypatch: pytest.MonkeyPatch, server: CompileServer) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/editor/editor")
    with pytest.raises(BackendUnavailable, match="'/opt/editor/editor' is no Python interpreter"):
        server.compile_object(SAME, host())


def test_a_closed_server_says_so(server: CompileServer) -> None:
    server.compile_object(SAME, host())
    server.close()
    server.close()
    with pytest.raises(BackendUnavailable, match="its compile server is closed"):
        server.compile_object(SAME, host())


def test_one_server_is_shared() -> None:
    assert shared_server() is shared_server()


FORKS: Final = """
import os, sys
from vyre.adapters.cpu.native.features import host
from vyre.adapters.cpu.native.server import shared_server
text = "define i32 @same(i32 %i) nounwind {\\n  ret i32 %i\\n}\\n"
server = shared_server()
server.compile_object(text, host())
before = server.process_id
child = os.fork()
if child == 0:
    assert server.process_id is None
    server.compile_object(text, host())
    good = server.process_id not in (None, before)
    server.close()
    os._exit(0 if good else 1)
assert os.waitpid(child, 0)[1] == 0
server.compile_object(text, host())
assert server.process_id == before
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_fork_has_its_own_server() -> None:
    done = run(FORKS)
    assert done.stdout == "done\n", done.stderr
    assert done.stderr == ""


LIVES: Final = """
import sys
from vyre.adapters.cpu.native.features import host
from vyre.adapters.cpu.native.server import shared_server
shared_server().compile_object("define i32 @same(i32 %i) nounwind {\\n  ret i32 %i\\n}\\n", host())
print(shared_server().process_id, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize("how", ["it ends", "it is killed"])
def test_the_server_ends_with_its_parent(how: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", LIVES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    assert parent.stdin is not None and parent.stdout is not None
    with parent:
        helper = int(parent.stdout.readline())
        assert alive(helper)
        if how == "it is killed":
            parent.kill()
        parent.stdin.close()
        parent.wait(LIMIT_S)
    waits_until(lambda: not alive(helper))


def alive(process_id: int) -> bool:
    try:
        status = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def waits_until(condition: object) -> None:
    """Returns when ``condition()`` holds, and fails after the limit of a test."""
    assert callable(condition)
    over = threading.Event()
    watch = threading.Timer(LIMIT_S / 2, over.set)
    watch.daemon = True
    watch.start()
    while not condition():
        assert not over.is_set(), "it never came true"
        time.sleep(0.01)
    watch.cancel()


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def run(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment())
