"""Finding backends: broken, duplicate and outdated plug-ins stop nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from support.limits import LIMIT_S
from vyre.adapters.discovery import BUILTIN, PluginReference, assemble_catalog, installed_plugins, load_catalog
from vyre.ports.backend import PORT_API_VERSION
from vyre.testing.fakes import function_backend, registration_of

GOOD = registration_of(function_backend(dict, "good"))
BROKEN = {
    "missing module": "no_such_module_at_all:X",
    "missing attribute": "plugin_under_test:nothing",
    "wrong type": "plugin_under_test:NUMBER",
    "wrong port version": "plugin_under_test:OLD",
    "taken id": "plugin_under_test:SAME_ID",
    "no attribute": "plugin_under_test:",
}


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("plugin_under_test")
    module.GOOD = GOOD  # type: ignore[attr-defined]
    module.NUMBER = 3  # type: ignore[attr-defined]
    module.OLD = replace(GOOD, api_version=PORT_API_VERSION + 1)  # type: ignore[attr-defined]
    module.SAME_ID = replace(GOOD, rank=77)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "plugin_under_test", module)


@pytest.mark.parametrize("value", BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_a_failure_beside_the_good_ones(value: str) -> None:
    good = PluginReference("good", "plugin_under_test:GOOD")
    catalog = assemble_catalog([good, PluginReference("bad", value)])
    assert catalog.registrations == (GOOD,)
    (failure,) = catalog.failures
    assert failure.entry_point == f"bad = {value}"
    assert failure.reason


def test_a_plugin_that_raises_anything_is_only_its_own_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exploding_plugin.py").write_text("raise RuntimeError('boom')")
    monkeypatch.syspath_prepend(str(tmp_path))
    (failure,) = assemble_catalog([PluginReference("x", "exploding_plugin:X")]).failures
    assert failure.reason == "RuntimeError: boom"


def test_the_same_reference_twice_is_no_duplicate() -> None:
    good = PluginReference("good", "plugin_under_test:GOOD")
    assert assemble_catalog([good, good]).failures == ()


def test_built_in_backends_need_no_package_metadata() -> None:
    assert {r.id for r in load_catalog().registrations} >= {name for name, _ in BUILTIN}


def test_an_installed_distribution_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    os.utime(info, (1, 1))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "other" not in {p.name for p in installed_plugins()}
    (info / "entry_points.txt").write_text("[vyre.backends]\nother = plugin_under_test:GOOD\n")
    assert PluginReference("other", "plugin_under_test:GOOD") in installed_plugins()


def test_without_plugins_package_metadata_is_not_even_imported(tmp_path: Path) -> None:
    code = (
        "import sys; before = 'importlib.metadata' in sys.modules\n"
        "from vyre.adapters.discovery import installed_plugins\n"
        "assert installed_plugins() == ()\n"
        "assert before or 'importlib.metadata' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=LIMIT_S)


def test_discovery_constructs_nothing() -> None:
    def explode() -> object:
        raise AssertionError("discovery must be inert")

    lazy = replace(GOOD, factory=explode, probe=explode)  # type: ignore[arg-type]
    sys.modules["plugin_under_test"].GOOD = lazy  # type: ignore[attr-defined]
    assert assemble_catalog([PluginReference("lazy", "plugin_under_test:GOOD")]).registrations == (lazy,)
