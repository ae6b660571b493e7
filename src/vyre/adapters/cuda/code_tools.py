"""The tool that makes machine code of PTX text before the driver sees it: nvJitLink in this process, else ``ptxas``.

The driver can assemble text as well, but keeps what it makes to itself; what a tool makes can be stored.
"""

from __future__ import annotations

import shlex
from functools import cache
from typing import Any, Final, Protocol

from vyre.adapters.cuda.assembler import Assembler, AssemblyFailed, assemble, newest_assembler
from vyre.adapters.cuda.seam import JitOptions

MOST_LOG: Final = 1 << 20
"""Bytes of a log that are read."""


class CodeTool(Protocol):
    def named(self, jit: JitOptions, /) -> str:
        """The tool with its version, as it tells it itself, and its options: what a key has to say of it."""
        ...

    def assemble(self, ptx: str, target: str, jit: JitOptions, /) -> bytes:
        """A cubin for ``target`` (``sm_90``), as the driver would make it with ``jit``.

        Raises ``AssemblyFailed`` with the log.
        """
        ...


class Ptxas:
    """The assembler, in a process of its own for each module."""

    def __init__(self, assembler: Assembler) -> None:
        self._assembler = assembler

    def named(self, jit: JitOptions, /) -> str:
        return shlex.join(("ptxas", self._assembler.build, *_ptxas_options(jit)))

    def assemble(self, ptx: str, target: str, jit: JitOptions, /) -> bytes:
        return assemble(self._assembler, ptx, target, *_ptxas_options(jit))[0]


class NvJitLink:
    """The linker library, through cuda-python."""

    def __init__(self, library: Any, version: tuple[int, int]) -> None:
        """``library``: the module ``cuda.bindings.nvjitlink``."""
        self._library = library
        self._version = version

    def named(self, jit: JitOptions, /) -> str:
        major, minor = self._version
        return shlex.join(("nvJitLink", f"{major}.{minor}", *_nvjitlink_options(jit)))

    def assemble(self, ptx: str, target: str, jit: JitOptions, /) -> bytes:
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
    """The best one at hand, looked for once a process; None where there is none."""
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
