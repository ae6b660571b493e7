"""Listings of machine code: one instruction a line, with one notation for constants, whichever unit loads them."""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from support.limits import LIMIT_S

_INSTRUCTION: Final = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s*(.*?)\s*;")
_MOVE: Final = re.compile(
    r"(?P<guard>@\S+ )?(?:IMAD\.MOV\.U32 (?P<a>R\d+), RZ, RZ,|MOV (?P<b>R\d+),) (?P<value>-?0x\w+)"
)
_HALVES: Final = re.compile(r"(?P<guard>@\S+ )?HFMA2(?:\.MMA)? (?P<to>R\d+), -RZ, RZ, (?P<high>\S+) ?, (?P<low>\S+)")


def listings(nvdisasm: Path, cubin: bytes) -> dict[str, str]:
    """Returns the instructions of each entry of a cubin by name, without addresses and padding."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(nvdisasm), "-c", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout
    parts = re.split(r"^\.text\.(\w+):$", text, flags=re.MULTILINE)
    return {name: _instructions(code) for name, code in zip(parts[1::2], parts[2::2], strict=True)}


def _instructions(code: str) -> str:
    found = (_INSTRUCTION.match(line) for line in code.splitlines())
    lines = (_uniform(re.sub(r"\s+", " ", match[1])) for match in found if match)
    return "\n".join(line for line in lines if not line.startswith("NOP"))


def _uniform(line: str) -> str:
    """Rewrites every way to load a constant as ``MOV``: a move, a multiplication by zero, a sum of half floats."""
    move = _MOVE.fullmatch(line)
    if move:
        return f"{move['guard'] or ''}MOV {move['a'] or move['b']}, {int(move['value'], 16) & 0xFFFF_FFFF:#x}"
    halves = _HALVES.fullmatch(line)
    if halves:
        high, low = (int.from_bytes(struct.pack("<e", float(halves[key])), "little") for key in ("high", "low"))
        return f"{halves['guard'] or ''}MOV {halves['to']}, {high << 16 | low:#x}"
    return line
