"""Writes the evidence of a difference: everything that another machine needs to run the dispatch again."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from vyre.adapters.files import write_files
from vyre.adapters.policy_sources import version_of
from vyre.app.shadow.state import Difference
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.specialization import SpecValue
from vyre.domain.value_json import Json, to_json
from vyre.policies.journal import Decision

FORM = 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """A dispatch whose bytes differ.

    ``ran``: what ran in the place of ``program``, which is another program where lowerings of its operations were
    chosen.  ``inputs``, ``expected`` and ``got``: bytes by buffer name.  ``backend`` and ``shadow``: id, version and
    toolchain of each.  ``decisions``: those of the sample.
    """

    program: Program
    ran: Program
    config: DispatchConfig
    inputs: Mapping[str, bytes]
    expected: Mapping[str, bytes]
    got: Mapping[str, bytes]
    backend: Mapping[str, str]
    shadow: Mapping[str, str]
    difference: Difference
    decisions: Sequence[Decision] = ()


def write_evidence(evidence: Evidence, directory: Path | str | None) -> Path:
    """Writes a new directory below ``directory``, or among the temporary files, and returns it.

    ``program.vyre`` is the program as text, and ``ran.vyre`` what ran in its place, if that is another one.
    ``inputs``, ``expected`` and ``got`` hold a file of raw bytes for each buffer.  ``shadow.json`` has the difference,
    the fields of the config that are set, both backends, the names of the files and the decisions.  Raises
    ``UnreadableFile``, and ``OSError`` where no directory can be made.
    """
    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="vyre-shadow-", dir=directory))
    files = {place / "program.vyre": evidence.program.to_text().encode()}
    if evidence.ran.digest != evidence.program.digest:
        files[place / "ran.vyre"] = evidence.ran.to_text().encode()
    buffers = {}
    for folder, content in (("inputs", evidence.inputs), ("expected", evidence.expected), ("got", evidence.got)):
        (place / folder).mkdir()
        buffers[folder] = {name: f"{folder}/{number}.bin" for number, name in enumerate(content)}
        files.update({place / buffers[folder][name]: data for name, data in content.items()})
    document = {
        "form": FORM,
        "difference": evidence.difference._asdict(),
        "config": _config(evidence.config),
        "backend": dict(evidence.backend),
        "shadow": dict(evidence.shadow),
        "buffers": buffers,
        "decisions": [json.loads(each.record(version_of).to_text()) for each in evidence.decisions],
    }
    files[place / "shadow.json"] = json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"
    write_files(files)
    return place


def _config(config: DispatchConfig) -> dict[str, Json]:
    """Returns the fields that are set, as journals write them."""
    found = {each.name: getattr(config, each.name) for each in fields(config)}
    return {name: _json(value) for name, value in found.items() if value != getattr(DEFAULT_CONFIG, name)}


def _json(value: object) -> Json:
    if isinstance(value, Mapping):
        return {str(name): _json(each) for name, each in value.items()}
    if isinstance(value, SpecValue):
        return {
            "kind": value.kind.name,
            "bits": value.bits,
            "type": None if value.data_type is None else str(value.data_type),
        }
    return to_json(value)
