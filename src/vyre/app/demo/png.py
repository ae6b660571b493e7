"""Encodes PNG files with the standard library alone."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt


def png_bytes(pixels: npt.NDArray[Any]) -> bytes:
    """Returns a PNG file of u8 pixels: height x width (grey) or height x width x 3 (RGB)."""
    height, width = pixels.shape[:2]
    colour_type = 2 if pixels.ndim == 3 else 0
    rows = np.zeros((height, 1 + pixels[0].size), np.uint8)  # each row starts with its filter type, 0 = none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
