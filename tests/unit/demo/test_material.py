"""The demo reads what is there, and says so when it is not."""

from __future__ import annotations

import sysconfig
import zlib
from pathlib import Path

import numpy as np
import pytest

from vyre.app.demo.material import parse_pgm, photograph, standard_library
from vyre.app.demo.png import png_bytes
from vyre.domain.errors import UnreadableFile


def library_at(root: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(root))


def test_modules_and_imports_of_a_small_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library_at(
        tmp_path,
        monkeypatch,
        {
            "alpha.py": "import beta, package.inner as p\nimport nowhere\n",
            "beta.py": "def f():\n    from package import inner\n    from alpha import x\n",
            "package/__init__.py": "from . import inner\nfrom .inner import y\n",
            "package/inner.py": "from . import other\nfrom package.other import z\n",
            "test/ignored.py": "import alpha\n",
            "site-packages/ignored.py": "import alpha\n",
            "notes.txt": "import alpha\n",
        },
    )
    library = standard_library(10)
    assert library.modules == ("alpha", "beta", "package", "package.inner")
    named = {(library.modules[a], library.modules[b]) for a, b in library.imports}
    assert named == {
        ("alpha", "beta"),
        ("alpha", "package.inner"),
        ("beta", "package"),
        ("beta", "alpha"),
        ("package", "package.inner"),
        ("package.inner", "package"),
    }
    assert library.text == b"import bet"
    assert (library.index("beta"), library.index("gamma")) == (1, 0)


def test_the_library_of_this_interpreter_is_a_real_graph() -> None:
    library = standard_library(1 << 16)
    assert len(library.text) == 1 << 16
    assert {"json", "json.decoder", "asyncio", "os"} <= set(library.modules)
    assert (library.index("json"), library.index("json.decoder")) in library.imports
    assert len(library.imports) > 500


def test_no_source_text_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library_at(tmp_path, monkeypatch, {"only.txt": ""})
    with pytest.raises(UnreadableFile, match="no Python source text"):
        standard_library(10)


def test_the_photograph() -> None:
    photo = photograph()
    assert photo.shape == (256, 256)
    assert photo.std() > 40, "a picture with contrast, not a flat field"


@pytest.mark.parametrize(
    "data", [b"", b"P6 2 2 255 " + bytes(4), b"P5 2 2 255 " + bytes(3), b"P5 2 2 65535 " + bytes(8)]
)
def test_other_pictures_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableFile, match="Fix: "):
        parse_pgm(data)


@pytest.mark.parametrize("shape", [(2, 3), (3, 2, 3)])
def test_png_files_hold_the_pixels(shape: tuple[int, ...]) -> None:
    pixels = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    data = png_bytes(pixels)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks = {}
    at = 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert int.from_bytes(data[at + 8 + length : at + 12 + length], "big") == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour = (
        int.from_bytes(chunks[b"IHDR"][a:b], "big") for a, b in ((0, 4), (4, 8), (8, 9), (9, 10))
    )
    assert (height, width, depth, colour) == (*shape[:2], 8, 2 if len(shape) == 3 else 0)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any(), "no filter"
    assert (rows[:, 1:].reshape(shape) == pixels).all()
