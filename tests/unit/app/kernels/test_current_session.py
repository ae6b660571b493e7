"""The session on which a called kernel runs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from vyre import InOut, f32
from vyre.app.kernels.current_session import current_session


@vyre.kernel
def raised(x: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        x[i] = x[i] + 1


def test_the_innermost_with_block_counts() -> None:
    with vyre.open(backend="reference") as outer:
        assert current_session() is outer
        with vyre.open(backend="reference-scalar") as inner:
            assert current_session() is inner
        assert current_session() is outer
    assert current_session() is not outer


def test_a_session_that_is_closed_inside_its_block_is_refused() -> None:
    with vyre.open(backend="reference") as session:
        raised(np.zeros(1, np.float32))
        session.close()
        with pytest.raises(vyre.InvalidResource, match="the session is closed"):
            raised(np.zeros(1, np.float32))


def test_other_threads_share_the_default_session() -> None:
    found: list[vyre.Session] = []

    def run() -> None:
        x = np.zeros(3, np.float32)
        raised(x)
        assert x.tolist() == [1.0] * 3
        found.append(current_session())

    with vyre.open(backend="reference") as session:
        threads = [Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
    assert len(found) == 4
    assert len(set(map(id, found))) == 1
    assert found[0] is not session
    assert current_session() is found[0]


def test_a_task_has_the_block_in_which_it_was_made() -> None:
    async def inner() -> object:
        await asyncio.sleep(0)
        return current_session()

    async def outer() -> None:
        with vyre.open(backend="reference") as first:
            task = asyncio.create_task(inner())
            with vyre.open(backend="reference") as second:
                assert await inner() is second
            assert await task is first

    asyncio.run(outer())


SCRIPT = """
import numpy as np
import vyre
from vyre import InOut, f32
from vyre.app.kernels.current_session import current_session

@vyre.kernel
def raised(x: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        x[i] = x[i] + 1

x = np.zeros(3, np.float32)
"""


def run(tmp_path: Path, body: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT + body)
    ended = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_the_default_session_is_made_on_first_use_and_closed_at_exit(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
import atexit, sys
atexit.register(lambda: print("closed", session.closed))  # handlers run from the last one registered to the first
assert raised.program.name == "raised" and "vyre.app.opening" not in sys.modules
raised(x)
session = current_session()
print(x.tolist(), session.closed)
""",
    )
    assert out.splitlines() == ["[1.0, 1.0, 1.0] False", "closed True"]


@pytest.mark.skipif(sys.platform == "win32", reason="this platform does not fork")
def test_a_forked_child_has_a_default_session_of_its_own(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks while threads run
from vyre.app.kernels import current_session as module

raised(x)
parent = current_session()
with module._DEFAULT._lock, raised._specializations._lock:  # as threads of the parent may hold them
    child = os.fork()
    if child == 0:
        raised(x)
        assert current_session() is not parent and not current_session().closed and parent.closed
        print(x.tolist(), flush=True)
        sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
raised(x)
assert current_session() is parent
with vyre.open(backend="reference"):
    child = os.fork()
    if child == 0:
        try:
            raised(x)
        except vyre.DispatchFailed as error:
            print("refused", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(x.tolist())
""",
    )
    assert out.splitlines() == ["[2.0, 2.0, 2.0]", "refused", "[2.0, 2.0, 2.0]"]
