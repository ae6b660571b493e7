"""Writes kernels that other compilers lowered, with memory and answers, for ``tests/data/kernels``."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from vyre.ir import Program, walk_statements

Launch = tuple[Program, dict[str, Any], tuple[int, int, int]]
"""A program, its arguments, of which texts name memory, and the grid."""


def described(
    name: str, memory: dict[str, int], launches: list[Launch], answer: str, close: float, after: Iterable[bytes]
) -> dict[str, Any]:
    """Returns a case as ``cases.json`` has it.

    ``memory`` has the bytes of each array, ``answer`` is the one that holds the result, which differs from NumPy's by
    ``close`` of its size, and ``after`` are the contents of all arrays at the end.
    """
    digest = sha256()
    for content in after:
        digest.update(content)
    return {
        "name": name,
        "memory": memory,
        "launches": [
            {"program": named(program), "arguments": arguments, "grid": grid} for program, arguments, grid in launches
        ],
        "answer": answer,
        "close": close,
        "work": sum(
            prod((*program.workgroup_size, *grid)) * sum(1 for _ in walk_statements(program.body))
            for program, _, grid in launches
        ),
        "after": digest.hexdigest(),
    }


def named(program: Program) -> str:
    """Returns the name of a program in the file."""
    return program.digest.hex()[:16]


def write(path: str | Path, cases: list[dict[str, Any]], programs: dict[str, Program], arrays: dict[str, Any]) -> None:
    """Writes a file of cases, whose bytes depend on these alone, and prints what is in it."""
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:

        def add(name: str, data: str | bytes) -> None:
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_LZMA)

        add("cases.json", json.dumps(cases, indent=1))
        add("arrays.npz", packed.getvalue())
        for digest, program in sorted(programs.items()):
            add(f"{digest}.vyre", program.to_text())
    print(f"{len(programs)} programs in {len(cases)} cases, {Path(path).stat().st_size} bytes")
