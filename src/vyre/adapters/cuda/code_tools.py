"""Tools that translate PTX text to machine code before the driver sees it: nvJitLink in this process, else ``ptxas``.

The driver can assemble text as well, but it does not give the machine code out; the output of a tool can be stored.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from vyre.adapters.cuda.seam import JitOptions
from vyre.domain.frozen import frozen
from vyre.ports.interrupts import undisturbed

TIMEOUT_S: Final = 300.0
"""The time limit of one assembly."""


def find_tools(name: str) -> tuple[Path, ...]:
    """Returns every installed tool of this name (``ptxas``, ``nvdisasm``): on PATH, in the toolkit, in the NVIDIA
    wheels.
    """
    paths = [shutil.which(name), *(shutil.which(name, path=str(folder)) for folder in _folders())]
    return tuple(dict.fromkeys(Path(path).resolve() for path in paths if path))


def _folders() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable], "bin")
    yield Path("/usr/local/cuda/bin")
    wheels = find_spec("nvidia")
    for root in wheels.submodule_search_locations or () if wheels else ():
        yield from sorted(Path(root).glob("*/bin"))


@frozen
class Assembler:
    """An installed ``ptxas``: ``version`` is (major, minor), and ``build`` is the full version that it prints,
    ``13.0.88``.
    """

    path: Path
    version: tuple[int, int]
    build: str


def assemblers() -> tuple[Assembler, ...]:
    """Returns one assembler per build, in the order in which they were found; empty if there is none."""
    by_version: dict[str, Assembler] = {}
    for path in find_tools("ptxas"):
        try:
            text = undisturbed(
                subprocess.run, [str(path), "--version"], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
            ).stdout
        except (OSError, subprocess.SubprocessError):  # found, but it does not run here
            continue
        match = re.search(r"V((\d+)\.(\d+)\.\d+)", text)
        if match:
            by_version.setdefault(match[1], Assembler(path, (int(match[2]), int(match[3])), match[1]))
    return tuple(by_version.values())


def newest_assembler() -> Assembler | None:
    """Returns the assembler of the highest version, or None if there is none."""
    return max(assemblers(), key=lambda assembler: assembler.version, default=None)


class AssemblyFailed(Exception):
    """The assembler refused a module; the text is its log."""


def assemble(assembler: Assembler, ptx: str, target: str, *options: str) -> tuple[bytes, str]:
    """Returns the cubin of one module for ``target`` (``sm_90``) and the assembler's log.

    Raises ``AssemblyFailed``.
    """
    with tempfile.TemporaryDirectory(prefix="vyre-ptxas-") as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [str(assembler.path), f"-arch={target}", "-v", *options, str(source), "-o", str(cubin)]
        try:
            done = undisturbed(subprocess.run, command, capture_output=True, text=True, timeout=TIMEOUT_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise AssemblyFailed(str(error)) from error
        log = done.stdout + done.stderr
        if done.returncode:
            raise AssemblyFailed(log.replace(str(source), "kernel.ptx").strip() or f"exit code {done.returncode}")
        return cubin.read_bytes(), log


MOST_LOG: Final = 1 << 20
"""The number of bytes of a log that are read."""


class CodeTool(Protocol):
    """A tool that makes machine code from PTX text."""

    def named(self, jit: JitOptions, /) -> str:
        """Returns the tool, the version that it reports and its options as one text, which is part of the key of its
        output.
        """

    def assemble(self, ptx: str, target: str, jit: JitOptions, /) -> bytes:
        """Returns a cubin for ``target`` (``sm_90``), as the driver would make it with ``jit``.

        Raises ``AssemblyFailed`` with the log.
        """


class Ptxas:
    """The assembler ``ptxas``, run in a process of its own for each module."""

    def __init__(self, assembler: Assembler) -> None:
        self._assembler = assembler

    def named(self, jit: JitOptions, /) -> str:
        """Implements ``CodeTool.named``."""
        return shlex.join(("ptxas", self._assembler.build, *_ptxas_options(jit)))

    def assemble(self, ptx: str, target: str, jit: JitOptions, /) -> bytes:
        """Implements ``CodeTool.assemble``."""
        return assemble(self._assembler, ptx, target, *_ptxas_options(jit))[0]


class NvJitLink:
    """The linker library nvJitLink, called through cuda-python."""

    def __init__(self, library: Any, version: tuple[int, int]) -> None:
        """Keeps ``library``, which is the module ``cuda.bindings.nvjitlink``, and its version as (major, minor)."""
        self._library = library
        self._version = version

    def named(self, jit: JitOptions, /) -> str:
        """Implements ``CodeTool.named``."""
        major, minor = self._version
        return shlex.join(("nvJitLink", f"{major}.{minor}", *_nvjitlink_options(jit)))

    def assemble(self, ptx: str, target: str, jit: JitOptions, /) -> bytes:
        """Implements ``CodeTool.assemble``."""
        library = self._library
        arguments = [f"-arch={target}", *_nvjitlink_options(jit)]
        handle = library.create(len(arguments), arguments)
        try:
            text = ptx.encode() + b"\0"
            library.add_data(handle, library.InputType.PTX, text, len(text), "kernel.ptx")
            library.complete(handle)
            cubin = bytearray(library.get_linked_cubin_size(handle))
            library.get_linked_cubin(handle, cubin)
        except library.nvJitLinkError as error:
            raise AssemblyFailed(self._log(handle) or str(error)) from error
        finally:
            library.destroy(handle)
        return bytes(cubin)

    def _log(self, handle: int) -> str:
        log = bytearray(min(self._library.get_error_log_size(handle), MOST_LOG))
        self._library.get_error_log(handle, log)
        return log.rstrip(b"\0").decode(errors="replace").strip()


@cache
def find_code_tool() -> CodeTool | None:
    """Returns the preferred tool on this machine, or None if there is none; the search runs once per process."""
    return _nvjitlink() or _ptxas()


def _ptxas_options(jit: JitOptions) -> tuple[str, ...]:
    level = () if jit.level is None else (f"-O{min(jit.level, 3)}",)
    return (*level, *_registers(jit))


def _nvjitlink_options(jit: JitOptions) -> tuple[str, ...]:
    level = () if jit.level is None else ("-O3" if jit.level else "-O0",)  # it has no other levels
    return (*level, *_registers(jit))


def _registers(jit: JitOptions) -> tuple[str, ...]:
    return () if jit.max_registers is None else (f"-maxrregcount={jit.max_registers}",)


def _nvjitlink() -> CodeTool | None:
    try:
        from cuda.bindings import nvjitlink

        return NvJitLink(nvjitlink, nvjitlink.version())
    except Exception:  # no package, no library, or one that is too old: each binding fails in its own way
        return None


def _ptxas() -> CodeTool | None:
    newest = newest_assembler()
    return None if newest is None else Ptxas(newest)
