"""Input data of the demo: the source text and imports of Python's standard library, and a photograph."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vyre.domain.errors import UnreadableFile
from vyre.domain.frozen import frozen

_NOT_THE_LIBRARY: Final = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"})
_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<dots>\.*)(?P<source>[\w.]*)[ \t]+import\b|import[ \t]+(?P<names>[\w., \t]+))",
    re.MULTILINE,
)


@frozen
class StandardLibrary:
    """The standard library as demo input.

    ``text``: the beginning of all source text.  ``imports``: (importer, imported) as indices of ``modules``.
    """

    text: bytes
    modules: tuple[str, ...]
    imports: tuple[tuple[int, int], ...]

    def index(self, module: str) -> int:
        """Returns the index of a module; 0 if there is no such module."""
        return self.modules.index(module) if module in self.modules else 0


def standard_library(text_bytes: int) -> StandardLibrary:
    """Reads the library of the running interpreter, and at most ``text_bytes`` of its text.

    Raises ``UnreadableFile`` where the interpreter comes without source text.
    """
    root = Path(sysconfig.get_path("stdlib"))
    sources = {path.relative_to(root).with_suffix("").parts: path.read_bytes() for path in _python_files(root)}
    if not sources:
        raise UnreadableFile(
            f"there is no Python source text in {root}",
            fix="run the demo with an interpreter that has its standard library as files.",
        )
    number = {".".join(parts[:-1] if parts[-1] == "__init__" else parts): k for k, parts in enumerate(sources)}
    edges = {
        (importer, number[target])
        for importer, (parts, source) in enumerate(sources.items())
        for target in _imported(parts, source, number)
        if number[target] != importer
    }
    return StandardLibrary(b"".join(sources.values())[:text_bytes], tuple(number), tuple(sorted(edges)))


def photograph() -> npt.NDArray[np.uint8]:
    """Returns the grey picture of the gallery, u8 of height x width."""
    return parse_pgm(files("vyre.gallery").joinpath("data", "photograph.pgm").read_bytes())


def parse_pgm(data: bytes) -> npt.NDArray[np.uint8]:
    """Returns the pixels of a binary PGM file (P5) with 8 bits a pixel; raises ``UnreadableFile``."""
    header = re.match(rb"P5\s+(\d{1,9})\s+(\d{1,9})\s+255\s", data)
    width, height = (int(header[1]), int(header[2])) if header else (0, 0)
    if header is None or len(data) - header.end() != width * height:
        raise UnreadableFile(
            "the picture is no complete 8-bit PGM file", fix="save it as binary PGM (P5), maximum 255."
        )
    pixels: npt.NDArray[Any] = np.frombuffer(data, np.uint8, offset=header.end())
    return pixels.reshape(height, width)


def _python_files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _NOT_THE_LIBRARY)
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _imported(parts: tuple[str, ...], source: bytes, known: dict[str, int]) -> Iterator[str]:
    """Yields the known modules that the import statements of a file name, or the packages that hold them."""
    for match in _IMPORT.finditer(source):
        if match["names"] is not None:
            targets = [name.split()[0] for name in match["names"].decode().split(",") if name.split()]
        else:
            package = parts[: -len(match["dots"])] if match["dots"] else ()
            targets = [".".join((*package, *filter(None, [match["source"].decode()])))]
        for target in targets:
            while target and target not in known:
                target = target.rpartition(".")[0]
            if target:
                yield target
