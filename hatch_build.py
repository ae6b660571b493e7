"""Build hook: a wheel carries the digests of the emitters' sources, computed here."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FreezeEmitterSource(BuildHookInterface):  # type: ignore[type-arg]
    """Not for an editable install: its source changes."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        source = Path(self.root, "src")
        sys.path.insert(0, str(source))
        try:
            from vyre.adapters.source_digest import ALL_SOURCES, read_sources
        finally:
            sys.path.remove(str(source))
        self._folder = tempfile.TemporaryDirectory(prefix="vyre-build-")
        for parts, name in ALL_SOURCES:
            frozen = Path(self._folder.name, Path(name).name)
            frozen.write_text(read_sources(source / "vyre", parts).digest.hex(), "ascii")
            build_data["force_include"][str(frozen)] = f"vyre/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
