"""Digests of the PTX of many programs under several options, as ``tests/data/ptx-digests.txt`` records them.

A change that is not meant to alter what is emitted leaves the record as it is.  After a change of the emitter that is
meant, or of the programs, write it anew from the root of the repository, and look at what ``git diff`` shows:
``PYTHONPATH=src:tests python -m support.cuda.ptx_digests``.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from support.widened_programs import widened_cases
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import ALL_OFF, EmitOptions
from vyre.domain.errors import VyreError
from vyre.domain.ir.program import Program
from vyre.gallery.registry import MODULES, load
from vyre.testing.filetests import load_filetests
from vyre.testing.operator_matrix import operator_matrix

TESTS: Final = Path(__file__).parents[2]
RECORD: Final = TESTS / "data" / "ptx-digests.txt"
FILETESTS: Final = TESTS / "filetests"
OPTIONS: Final = (
    EmitOptions(target=75),
    EmitOptions(),
    EmitOptions(target=120, native_grid_sync=False),
    EmitOptions(switches=ALL_OFF),
    EmitOptions(assume=frozenset(Assumption)),
    EmitOptions(pointer_table=True),
    EmitOptions(assembler=(13, 5)),
)
DIGEST_CHARACTERS: Final = 16


def digests() -> dict[str, str]:
    """The digest of every program of the gallery, the operator matrix, the widened language and the filetests."""
    return {name: digest_of(program) for name, program in _programs()}


def digest_of(program: Program) -> str:
    """One digest of the PTX under all ``OPTIONS``; a refusal counts by the type of its error."""
    digest = sha256()
    for options in OPTIONS:
        try:
            emitted = emit(program, options).ptx
        except VyreError as error:
            emitted = type(error).__name__
        digest.update(emitted.encode())
    return digest.hexdigest()[:DIGEST_CHARACTERS]


def recorded() -> dict[str, str]:
    """The digests that ``RECORD`` holds, by the name of their program."""
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split(" ", 1) for line in lines)}


def _programs() -> Iterator[tuple[str, Program]]:
    for module in MODULES:
        yield f"gallery/{module}", load(module).program()
    for case in operator_matrix():
        yield f"matrix/{case.name}", case.program
    for name, widened in widened_cases():
        yield f"widened/{name}", widened.program
    for test in load_filetests([FILETESTS]):
        if test.program is not None:
            yield f"filetest/{Path(test.filename).relative_to(FILETESTS).as_posix()}", test.program


def main() -> None:
    RECORD.write_text("".join(f"{digest} {name}\n" for name, digest in digests().items()), encoding="utf-8")


if __name__ == "__main__":
    main()
