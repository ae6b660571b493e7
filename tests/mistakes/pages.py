"""Reads and runs pages of mistakes: Markdown with the code or command of each mistake, and the message that it gets.

A page begins with a ```py block, which is run before each of its mistakes in an empty directory.  A mistake is a
``##`` section that holds, in this order, files to write (fences such as ```vyre broken.vyre), the code (```py) or the
commands (```sh), and what they get (```text).
"""

from __future__ import annotations

import io
import linecache
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest import mock

from vyre.adapters.cuda import drivers
from vyre.app.cli import main
from vyre.app.kernels.kernel import Kernel

FOLDER: Final = Path(__file__).parent
FILE: Final = "kernel.py"
"""The file name that messages give to the code of a mistake."""
MARK: Final = "# <--"
"""The comment at the line that a message names."""
_SECTION: Final = re.compile(r"^## (.*)\n", re.MULTILINE)
_FENCE: Final = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mistake:
    """``code``: Python, or command lines where ``is_command``.  ``files``: their contents by name."""

    page: str
    title: str
    setup: str
    files: tuple[tuple[str, str], ...]
    code: str
    is_command: bool
    expected: str

    @property
    def marked_line(self) -> int | None:
        """The line of ``code``, from 1, that the message must name; None where the code has no mark."""
        marked = [number for number, line in enumerate(self.code.splitlines(), 1) if line.endswith(MARK)]
        assert len(marked) <= 1, f"{self.title}: {len(marked)} lines are marked"
        return marked[0] if marked else None


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a mistake.  ``text`` is what a page shows of it, ``code`` the exit code."""

    text: str
    error: Exception | None = None
    code: int | None = None


def pages() -> list[Path]:
    return sorted(FOLDER.glob("*.md"))


def mistakes(page: Path) -> list[Mistake]:
    preamble, *rest = _SECTION.split(page.read_text("utf-8"))
    (setup,) = (text for language, _, text in _FENCE.findall(preamble) if language == "py")
    return [_mistake(page.stem, setup, title, body) for title, body in zip(rest[::2], rest[1::2], strict=True)]


def _mistake(page: str, setup: str, title: str, body: str) -> Mistake:
    *files, (language, name, code), (shown, _, expected) = _FENCE.findall(body)
    assert (language in ("py", "sh"), name, shown) == (True, "", "text"), f"{page}, {title}: files, code, text"
    assert all(name for _, name, _ in files), f"{page}, {title}: a file has no name"
    return Mistake(page, title, setup, tuple((n, text) for _, n, text in files), code, language == "sh", expected)


def renewed(page: Path) -> str:
    """Returns the page with the messages that its mistakes get now."""
    text = page.read_text("utf-8")
    for mistake in mistakes(page):
        head, heading, body = text.partition(f"## {mistake.title}\n")
        kept, fence, rest = body.partition("```text\n")
        text = head + heading + kept + fence + answer(mistake).text + rest[rest.index("```\n") :]
    return text


def answer(mistake: Mistake) -> Answer:
    """Makes the mistake in an empty directory, on a machine without GPU and without settings of vyre."""
    with _elsewhere(), mock.patch.object(drivers, "library_problem", _no_library):
        names: dict[str, Any] = {"__name__": "mistake"}
        exec(compile(mistake.setup, "setup.py", "exec"), names)
        for name, text in mistake.files:
            Path(name).write_text(text, "utf-8")
        try:
            return _commanded(mistake.code) if mistake.is_command else _run(mistake.code, names)
        finally:
            if (session := names.get("session")) is not None:
                session.close()


def _run(code: str, names: dict[str, Any]) -> Answer:
    """Runs code as that of a file, and makes programs of its kernels, whose bodies are read at their first use."""
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    try:
        exec(compile(code, FILE, "exec"), names)
        for kernel in [one for one in names.values() if isinstance(one, Kernel)]:
            kernel.program  # noqa: B018
    except Exception as error:
        return Answer(f"{type(error).__name__}: {error}\n", error=error)
    finally:
        linecache.cache.pop(FILE, None)
    return Answer("nothing\n")


def _commanded(lines: str) -> Answer:
    """Returns the outcome of the last command; those before it must succeed."""
    *before, last = (shlex.split(line) for line in lines.replace("\\\n", " ").splitlines())
    for command in before:
        with redirect_stdout(io.StringIO()):
            assert main(command[1:]) == 0, command
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(printed):
        code = main(last[1:])
    return Answer(f"{printed.getvalue().replace(str(Path.cwd()), '/home/me')}exit code {code}\n", code=code)


@contextmanager
def _elsewhere() -> Iterator[None]:
    with TemporaryDirectory() as folder, chdir(folder), mock.patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("VYRE_")]:
            del os.environ[name]
        os.environ |= {"VYRE_CACHE_DIR": str(Path(folder, "cache")), "COLUMNS": "100"}
        yield


def _no_library() -> str:
    return "libcuda.so.1: cannot open shared object file: No such file or directory"
