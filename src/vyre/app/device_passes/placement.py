"""The places where the passes of a session run."""

from __future__ import annotations

from typing import Final

from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig
from vyre.domain.printable import shown

HOST: Final = "host"
DEVICE: Final = "device"


def check_place(optimizer: str) -> None:
    """Raises ``InvalidConfig`` for what is no place of the optimizer."""
    expect("optimizer", optimizer, str, "a text")
    if optimizer not in (HOST, DEVICE):
        raise InvalidConfig(f"optimizer={shown(optimizer)}", fix=f'write optimizer="{HOST}" or "{DEVICE}".')
