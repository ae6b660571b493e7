"""Tables of device signatures: the files that are shipped, and those of the directories that a user names."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from vyre.adapters.files import is_directory
from vyre.domain.device_signature import DeviceSignature
from vyre.domain.diagnostics import Diagnostic
from vyre.domain.signature_files import DUPLICATE, MAX_SIGNATURE_BYTES, UNREADABLE, read_signatures, signature_finding

PATH_VARIABLE: Final = "VYRE_DEVICE_PATH"
_SHIPPED: Final = Path(__file__).with_name("devices")


class SignatureTable(NamedTuple):
    """Device signatures in the order in which a name is looked up, and what there is to say about the files.

    Those of the user come before those that are shipped, and a device before its whole generation.
    """

    signatures: tuple[DeviceSignature, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    def find(self, device_name: str) -> DeviceSignature | None:
        """Returns the signature of a device by its name; None for one that the table does not know."""
        return next((each for each in self.signatures if each.matches_name(device_name)), None)


@cache
def signature_table(path: str | None = None) -> SignatureTable:
    """Returns the table of the directories in ``path``, which colons separate, and of the shipped files.

    Read once for each path.  Raises nothing: what is wrong with a file becomes a diagnostic, and the file is left out.
    """
    notes: list[Diagnostic] = []
    signatures: list[DeviceSignature] = []
    for name in path.split(os.pathsep) if path else ():
        signatures += _directory(Path(name), notes)
    return SignatureTable((*signatures, *_directory(_SHIPPED, notes)), tuple(notes))


def _directory(directory: Path, notes: list[Diagnostic]) -> list[DeviceSignature]:
    if not is_directory(directory):
        message = f"{directory} is no directory"
        notes.append(signature_finding(UNREADABLE, message, f"correct {PATH_VARIABLE}.", str(directory)))
        return []
    signatures: list[DeviceSignature] = []
    owners: dict[str, str] = {}
    try:
        files = sorted(file for file in directory.iterdir() if file.suffix == ".toml")
    except OSError as error:
        notes.append(signature_finding(UNREADABLE, f"{directory}: {error}", "make it readable.", str(directory)))
        return []
    for file in files:
        try:
            with file.open("rb") as opened:
                data = opened.read(MAX_SIGNATURE_BYTES + 1)
        except OSError as error:
            notes.append(signature_finding(UNREADABLE, f"it cannot be read: {error}", "make it readable.", str(file)))
            continue
        reading = read_signatures(data, str(file))
        notes += reading.diagnostics
        ids = {each.id for each in reading.signatures}
        twice = next((name for name in sorted(ids) if name in owners), None)
        if twice is not None:
            message = f"`{twice}` is in {owners[twice]}, too"
            notes.append(signature_finding(DUPLICATE, message, "keep one of them.", str(file)))
            continue
        owners.update(dict.fromkeys(ids, file.name))
        signatures += reading.signatures
    return signatures
