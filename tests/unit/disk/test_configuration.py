"""Where the settings of the cache come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from vyre.adapters.disk.artifact_store import DiskArtifactStore, open_disk_store
from vyre.adapters.disk.configuration import CacheOption, CacheSettings, cache_settings, default_directory
from vyre.domain.cache_config import CacheConfig, Durability
from vyre.domain.errors import InvalidConfig, InvalidField
from vyre.testing.recording_telemetry import RecordingTelemetry


class Variables(dict[str, str]):
    """An environment."""


def settings(cache: CacheOption = None, **variables: str) -> CacheSettings | None:
    return cache_settings(cache, Variables({f"VYRE_CACHE_{name}": value for name, value in variables.items()}))


def test_defaults() -> None:
    assert settings() == CacheSettings(directory=default_directory(), max_bytes=1 << 30, max_entries=4096)
    assert settings(DIR="", BYTES="", ENTRIES=" ", DISABLE="", LAYERS="") == settings()


def test_environment_stands_before_the_defaults() -> None:
    assert settings(DIR="/a", BYTES="5", ENTRIES="7", LAYERS="/b:/c") == CacheSettings(
        directory=Path("/a"), max_bytes=5, max_entries=7, layers=(Path("/b"), Path("/c"))
    )


def test_code_stands_before_the_environment_field_by_field() -> None:
    variables = {"DIR": "/a", "BYTES": "5", "ENTRIES": "7", "LAYERS": "/b"}
    full = CacheConfig(Path("/x"), 1, 2, Durability.DIR, (Path("/y"),))
    assert settings(full, **variables) == CacheSettings(
        directory=Path("/x"), max_bytes=1, max_entries=2, durability=Durability.DIR, layers=(Path("/y"),)
    )
    for cache in (Path("/x"), "/x", CacheConfig(directory=Path("/x"))):
        found = settings(cache, **variables)
        assert found == CacheSettings(directory=Path("/x"), max_bytes=5, max_entries=7, layers=(Path("/b"),))
    found = settings(CacheConfig(layers=()), **variables)
    assert found is not None
    assert found.layers == ()


@pytest.mark.parametrize("word", ["1", "true", "YES", "on"])
def test_whoever_says_no_is_heard(word: str) -> None:
    assert settings(CacheConfig(directory=Path("/x")), DISABLE=word) is None
    assert settings(False) is None
    assert settings(False, DISABLE="0", DIR="/a") is None


@pytest.mark.parametrize("word", ["0", "false", "No", "off"])
def test_not_disabling_is_not_enabling(word: str) -> None:
    assert settings(DISABLE=word) == settings()
    assert settings(False, DISABLE=word) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("BYTES", "many"), ("BYTES", "0"), ("BYTES", "-1"), ("BYTES", "1e9"), ("ENTRIES", "0"), ("DISABLE", "perhaps")],
)
def test_a_variable_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"VYRE_CACHE_{name}='{value}' is not .*Fix: set VYRE_CACHE_{name}"):
        settings(**{name: value})


@pytest.mark.parametrize("cache", [True, "", 5])
def test_what_is_no_cache_is_refused(cache: object) -> None:
    with pytest.raises(InvalidConfig, match="is no cache"):
        settings(cache)  # type: ignore[arg-type]


def test_limits_are_positive() -> None:
    with pytest.raises(InvalidField, match="max_bytes"):
        CacheConfig(max_bytes=0)
    with pytest.raises(InvalidField, match="max_entries"):
        CacheConfig(max_entries=0)


def test_paths_become_absolute_and_keep_their_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for given, meant in (("link/x", tmp_path / "link" / "x"), ("~/c", Path("/home/somebody/c")), ("a/../b", "b")):
        found = settings(DIR=given)
        assert found is not None
        assert found.directory == tmp_path / meant


def test_a_home_behind_a_link_is_nothing_unusual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "disk7"
    real.mkdir()
    (tmp_path / "home").symlink_to(real)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / ".cache"))
    assert default_directory() == real.resolve() / ".cache" / "vyre"


def test_a_store_is_opened_as_told(tmp_path: Path) -> None:
    assert open_disk_store(False, Variables(), RecordingTelemetry()) is None
    opened = open_disk_store(tmp_path / "cache", Variables(), RecordingTelemetry())
    assert isinstance(opened, DiskArtifactStore)
    assert opened.stats().entries == 0
