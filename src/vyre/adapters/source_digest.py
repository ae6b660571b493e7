"""Digest of the source that generates code, so that kernels made by other source are never served.

A version number would have to be raised by hand.  So the digest covers every file that the emitter imports, as it is on
disk; in a wheel, whose files are not edited, the digest was computed when the wheel was built.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from vyre.domain.errors import UnreadableFile

EMITTER: Final = (
    "adapters/cuda/decisions",
    "adapters/cuda/ptx",
    "domain",
    "policies/emission",
    "policies/journal.py",
    "policies/launching/bindless.py",
    "policies/launching/param_inlining.py",
    "policies/record.py",
)
"""The modules and packages of the PTX emitter, below the package ``vyre``."""
FROZEN: Final = "adapters/emitter_source.txt"
"""The file of a wheel with its digest, in hexadecimal, below the package."""
LLVM_EMITTER: Final = (
    "adapters/cpu/decisions",
    "adapters/cpu/llvm",
    "adapters/cpu/native/compilation.py",
    "domain",
    "policies/emission",
    "policies/journal.py",
    "policies/record.py",
)
"""The modules and packages that write LLVM's text and choose the passes of its compiler."""

COARSENESS_NS: Final = 2_000_000_000
"""Maximum lag of a file's time behind the clock: file systems count in ticks, some in steps of two seconds."""


class Sources(NamedTuple):
    """The source of one emitter: its parts below the package, and the file of a wheel that holds its digest."""

    parts: tuple[str, ...]
    frozen: str


PTX: Final = Sources(EMITTER, FROZEN)
LLVM: Final = Sources(LLVM_EMITTER, "adapters/llvm_emitter_source.txt")
POOL: Final = Sources(("adapters/cpu/native/compilation.py", "adapters/cpu/pool"), "adapters/pool_source.txt")
"""The runtime of the native CPU backend, which is compiled like a kernel."""
REFERENCE: Final = Sources(("adapters/reference", "domain"), "adapters/reference_source.txt")
"""The reference, and the rules of the language by which it computes."""
ALL_SOURCES: Final = (PTX, LLVM, POOL, REFERENCE)


class SourceState(NamedTuple):
    """The digest of source files; ``changed_ns`` is the latest time of change among them, since the epoch."""

    digest: bytes
    changed_ns: int


@cache
def emitter_digest(sources: Sources = PTX) -> bytes:
    """Returns the digest, of 32 bytes, of an emitter as this process has imported it.

    If a file changed after the import began, it is not known which of its versions runs; then the digest is unique to
    this process.  Raises ``UnreadableFile`` where the files cannot be read.
    """
    package = Path(__file__).parents[1]
    try:
        return bytes.fromhex((package / sources.frozen).read_text("ascii"))
    except FileNotFoundError:
        # Not an import statement: adapters must not depend on the public names of the package.
        since_ns: int = import_module("vyre").IMPORTED_NS
        return running_digest(read_sources(package, sources.parts), since_ns)


def running_digest(state: SourceState, since_ns: int) -> bytes:
    """Returns the digest for the code of a process that began to import it at ``since_ns``."""
    if state.changed_ns < since_ns - COARSENESS_NS:
        return state.digest
    return bytes(a ^ b for a, b in zip(state.digest, os.urandom(32), strict=True))


def read_sources(package: Path, parts: Sequence[str] = EMITTER) -> SourceState:
    """Computes SHA-256 over the path and the content of every module, length-framed, in the order of paths.

    SHA-256 because it is in the standard library, which is all that the build of a wheel has.  Raises
    ``UnreadableFile``.
    """
    from hashlib import sha256

    state, changed_ns = sha256(), 0
    for path in source_files(package, parts):
        try:
            with (package / path).open("rb") as file:
                # Before reading, so that a change during the read is noticed.
                changed_ns = max(changed_ns, os.fstat(file.fileno()).st_mtime_ns)
                content = file.read()
        except OSError as error:
            raise UnreadableFile(f"cannot read {package / path}: {error.strerror or error}") from None
        for item in (path.encode(), content):
            state.update(len(item).to_bytes(8, "little"))
            state.update(item)
    return SourceState(state.digest(), changed_ns)


def source_files(package: Path, parts: Sequence[str] = EMITTER) -> list[str]:
    """Returns sorted paths below ``package``, with slashes.  Raises ``UnreadableFile`` for a part without any."""
    files: list[str] = []
    for part in parts:
        modules = [part] if part.endswith(".py") else list(_modules(package, part))
        if not modules:
            raise UnreadableFile(f"{package / part} has no source files", fix="install vyre with its sources.")
        files += modules
    return sorted(files)


def _modules(package: Path, folder: str) -> Iterator[str]:
    try:
        with os.scandir(package / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}"
                if entry.name.endswith(".py"):
                    yield path
                elif entry.is_dir() and entry.name != "__pycache__":
                    yield from _modules(package, path)
    except OSError as error:
        raise UnreadableFile(f"cannot read {package / folder}: {error.strerror or error}") from None
