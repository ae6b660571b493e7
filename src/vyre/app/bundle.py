"""Loading bundles: files with programs by name, whose code sessions of this process take instead of compiling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vyre.domain.arguments import expect as expect_kind
from vyre.domain.arguments import path_of
from vyre.domain.errors import UnknownEntry
from vyre.domain.printable import one_line, shown
from vyre.domain.unique import Unique
from vyre.ports.bundles import CodeShelf

if TYPE_CHECKING:
    from vyre.adapters.bundles.manifest import Loaded
    from vyre.domain.ir.program import Program

SHELF: Final = "code in bundles"
"""The slot of a program that keeps the code of its bundle in reach."""


def load_bundle(path: Path | str, *, expect: str | None = None) -> LoadedBundle:
    """Loads the bundle in the file at ``path``: a mapping of the names of its entry points to their programs.

    As long as the bundle or one of its programs is in use, sessions on ``cpu``, ``cuda`` and ``cuda-machine`` take the
    code in it for these programs, in dispatches, steps, bound launches and persistent jobs; nothing is compiled for
    them where fitting code is in it.  Load a bundle before a session is opened where no compiler is installed.
    ``expect``: the hexadecimal digest of the file; any other file is refused before any of its code is loaded.

    Raises ``UnreadableFile``, ``MalformedBundle`` for anything except a whole bundle of this version of the form, and
    ``UnexpectedDigest``.
    """
    from vyre.adapters.bundles.files import read_bundle

    expect_kind("expect", expect, (str, type(None)), "a digest in hexadecimal, or None")
    return LoadedBundle(read_bundle(path_of("path", path), expect))


class LoadedBundle(Unique, Mapping[str, "Program"]):
    """Programs by the names of their entry points, with code for several targets; every method may be called from any
    thread.

    ``bundle["saxpy"]`` is a ``Program``, whose buffers are the signature of the entry point, and is accepted wherever a
    program is.  ``digest`` is the digest of the file in hexadecimal, and ``vyre`` the version that built it.
    """

    def __init__(self, loaded: Loaded) -> None:
        bundle = loaded.bundle
        self.digest: Final = loaded.digest.hex()
        self.vyre: Final = bundle.vyre
        self._programs = dict(bundle.entries)
        shelf = CodeShelf(bundle.codes)
        for program in self._programs.values():
            program._cache[SHELF] = shelf
        self._members = tuple(dict.fromkeys(code.name for code in bundle.codes))

    @property
    def members(self) -> tuple[str, ...]:
        """Returns the names of the code: target and kind, such as ``cpu-x86_64-avx2.object``."""
        return self._members

    def __getitem__(self, name: str) -> Program:
        program = self._programs.get(name)
        if program is None:
            known = ", ".join(f"`{one_line(each)}`" for each in self._programs)
            raise UnknownEntry(f"the bundle has no entry point {shown(name)}", fix=f"its entry points are {known}.")
        return program

    def __iter__(self) -> Iterator[str]:
        return iter(self._programs)

    def __len__(self) -> int:
        return len(self._programs)

    def __repr__(self) -> str:
        return f"<LoadedBundle {', '.join(map(one_line, self._programs))}: {', '.join(self._members)}>"
