"""The assembler ``ptxas``, where one is installed: it turns PTX text into machine code in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

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
