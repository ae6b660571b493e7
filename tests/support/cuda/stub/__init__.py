"""A stand-in for the driver library: built from C, found by the real bindings, read and commanded from Python.

The bindings resolve the library once in a process, so whatever runs on the stub is a process of its own, with
``environment(folder)``.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from support.limits import LIMIT_S

NO_COMPILER: Final = "no C compiler to build the driver stub with"
_SOURCES: Final = Path(__file__).parent
_ROOT: Final = _SOURCES.parents[2]
_LIBRARY: Final = "libcuda.so.1"
_FLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden")


def can_build() -> bool:
    """On Linux with a C compiler; the bindings look for another file name elsewhere."""
    return sys.platform == "linux" and _compiler() is not None


def build(folder: Path) -> Path:
    """Build the library into ``folder``, which goes into ``environment``.  Raises ``CalledProcessError``."""
    compiler = _compiler()
    assert compiler is not None, NO_COMPILER
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / _LIBRARY
    command = [compiler, *_FLAGS, f"-Wl,-soname,{_LIBRARY}", "-o", str(output), str(_SOURCES / "stub.c"), "-pthread"]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    return folder


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def environment(folder: Path | None) -> dict[str, str]:
    """Of a process that finds the stub in ``folder``, or with None no driver library; our packages it finds too."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    paths = [str(_ROOT / "src"), str(_ROOT / "tests"), str(_ROOT)]
    if os.environ.get("PYTHONPATH"):
        paths.append(os.environ["PYTHONPATH"])
    found = {} if folder is None else {"LD_LIBRARY_PATH": str(folder)}
    return {**kept, **found, "PYTHONPATH": os.pathsep.join(paths)}


def run(source: str, folder: Path | None) -> str:
    """What a Python program prints in a process with the stub in ``folder``, or without a driver library.

    Raises ``AssertionError`` with the output if it fails.
    """
    return _python(["-c", source], folder)


def run_module(name: str, folder: Path | None, *arguments: str) -> str:
    """The same for a module."""
    return _python(["-m", name, *arguments], folder)


def _python(arguments: Sequence[str], folder: Path | None) -> str:
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class StubControl:
    """The stub of this process: its log, and orders to fail."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(_LIBRARY)
        self._library.vyre_stub_log.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._library.vyre_stub_log.restype = ctypes.c_size_t
        self._library.vyre_stub_fail.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]

    def take_log(self) -> list[str]:
        """Lines since the last time: ``name(arguments)`` of a call, ``!name=code`` after one that failed, and
        `` launch kernel ...`` where a kernel would run."""
        length = self._library.vyre_stub_log(None, 0)
        buffer = ctypes.create_string_buffer(max(1, length))
        length = self._library.vyre_stub_log(buffer, length)
        return buffer.raw[:length].decode().splitlines()

    def take_names(self) -> list[str]:
        """Names of the functions called since the last time, in order."""
        return [line.split("(", 1)[0] for line in self.take_log() if line[0] not in "! "]

    def take_launches(self) -> list[Mapping[str, str]]:
        """Launches since the last time: ``kernel``, ``grid``, ``block``, ``shared``, ``cooperative``, and
        ``parameters`` in hexadecimal."""
        lines = [line.split() for line in self.take_log() if line.startswith(" launch ")]
        return [{"kernel": kernel, **dict(fact.split("=") for fact in facts)} for _, kernel, *facts in lines]

    def fail(self, name: str, code: int, nth: int = 0) -> None:
        """Let the ``nth`` call of a function from now on fail, or every one."""
        self._library.vyre_stub_fail(name.encode(), nth, code)

    def fail_nothing(self) -> None:
        self._library.vyre_stub_fail(None, 0, 0)

    @property
    def log_reads(self) -> int:
        """How often the driver's log was read."""
        reads: int = self._library.vyre_stub_log_reads()
        return reads

    def record(self, on: bool) -> None:
        """Without, launches return at once: what they cost then is the call."""
        self._library.vyre_stub_record(int(on))
