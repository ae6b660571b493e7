"""The threads of a session end while others of them are about to start."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from vyre.app.asynchrony.threads import SubmitThreads
from vyre.app.background import BackgroundCompiler
from vyre.ports.support import SILENT

LIMIT_S = 60.0


def before_start(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Has ``act`` called once, between the making of the next thread of this name and its start."""
    start = threading.Thread.start

    def acted(thread: threading.Thread) -> None:
        if thread.name.startswith(name):
            monkeypatch.setattr(threading.Thread, "start", start)
            act()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", acted)


def test_another_thread_ends_them_once_they_have_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = SubmitThreads()
    failures: list[BaseException] = []

    def end() -> None:
        try:
            threads.end()
        except BaseException as error:
            failures.append(error)

    ender = threading.Thread(target=end)

    def act() -> None:
        ender.start()
        ender.join(0.2)

    before_start(monkeypatch, "vyre-submit", act)
    assert threads.submit(lambda: 3).result(LIMIT_S) == 3
    ender.join(LIMIT_S)
    assert not failures and not ender.is_alive()


def test_a_finaliser_ends_them_before_they_have_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = SubmitThreads()
    before_start(monkeypatch, "vyre-submit", threads.end)
    assert threads.submit(lambda: 3).result(LIMIT_S) == 3
    threads.end()


def test_a_finaliser_closes_work_in_the_background_before_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    background = BackgroundCompiler(SILENT)
    before_start(monkeypatch, "vyre-background", background.close)
    assert background.wish("key", lambda: None)
    assert background.close(LIMIT_S)
