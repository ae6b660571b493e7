"""Options of the installed backends: from the environment, and from the code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.small_programs import saxpy_program
from vyre.adapters.cuda.drivers import machine_driver
from vyre.adapters.cuda.ptx.options import PROFILES
from vyre.adapters.cuda.registration import CUDA, CUDA_MACHINE, cuda_catalog
from vyre.adapters.cuda.runtime import options as module
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.cuda.runtime.options import ORDINAL, SWITCHES, machine_options_from, options_from
from vyre.adapters.discovery import load_catalog
from vyre.domain.errors import BackendUnavailable, InvalidConfig
from vyre.policies.launching.grid_sync_mode import GridSyncMode

USUAL = CudaOptions()
VALUES: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("VYRE_CUDA_GRAPH_AFTER", "costs"): {"graph_after": "costs"},
    ("VYRE_CUDA_GRAPH_AFTER", "off"): {"graph_after": None},
    ("VYRE_CUDA_GRAPH_AFTER", "0"): {"graph_after": 0},
    ("VYRE_CUDA_GRAPH_AFTER", "12"): {"graph_after": 12},
    ("VYRE_CUDA_SIDE_BY_SIDE", "on"): {"side_by_side": True},
    ("VYRE_CUDA_SIDE_BY_SIDE", "off"): {"side_by_side": False},
    ("VYRE_CUDA_COPY_OVERLAP", "on"): {"copy_overlap": True},
    ("VYRE_CUDA_COPY_OVERLAP", " Off "): {"copy_overlap": False},
    ("VYRE_CUDA_GRID_SYNC", "auto"): {"grid_sync": None},
    ("VYRE_CUDA_GRID_SYNC", "native"): {"grid_sync": GridSyncMode.NATIVE},
    ("VYRE_CUDA_GRID_SYNC", "split"): {"grid_sync": GridSyncMode.SPLIT},
}
NONSENSE = ["nonsense", "-1", "\N{SUPERSCRIPT TWO}", "1.5", "9" * 5000]


# ---------------------------------------------------------------- the environment
@pytest.mark.parametrize(("name", "value"), VALUES)
def test_a_variable_sets_one_option(name: str, value: str) -> None:
    options = VALUES[name, value]
    assert options_from({name: value}) == replace(USUAL, **options)
    assert machine_options_from({name: value}) == replace(USUAL, exports=False, **options)


def test_every_variable_is_tried_here() -> None:
    assert {name for name, _ in VALUES} == {variable.name for variable in SWITCHES}


@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_variable_is_as_good_as_none(value: str) -> None:
    empty = {variable.name: value for variable in (ORDINAL, *SWITCHES)}
    assert options_from({}) == options_from(empty) == USUAL


def test_variables_add_up() -> None:
    found = options_from({"VYRE_CUDA_GRAPH_AFTER": "3", "VYRE_CUDA_SIDE_BY_SIDE": "off", ORDINAL.name: "1"})
    assert found == CudaOptions(ordinal=1, graph_after=3, side_by_side=False)


@pytest.mark.parametrize("variable", [ORDINAL, *SWITCHES], ids=lambda variable: variable.option)
@pytest.mark.parametrize("value", NONSENSE, ids=range(len(NONSENSE)))
def test_what_cannot_be_meant_is_refused(variable: Any, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{variable.name}='{value}' is not .*Fix: use .*unset it"):
        options_from({variable.name: value})


def test_the_ordinal_is_of_the_real_devices() -> None:
    assert options_from({ORDINAL.name: "3"}).ordinal == 3
    for value in ("3", "nonsense"):
        assert machine_options_from({ORDINAL.name: value}).ordinal == 0


PAGE: Final = (Path(__file__).parents[3] / "docs" / "cuda.md").read_text("utf-8")


def test_the_page_and_the_module_list_every_variable() -> None:
    for variable in (ORDINAL, *SWITCHES):
        assert f"`{variable.name}` |" in PAGE
        assert variable.name in str(module.__doc__)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_page_lists_every_profile(profile: str) -> None:
    assert f"| `{profile}` |" in PAGE


# ---------------------------------------------------------------- what becomes of them
def replays(session: vyre.Session) -> int:
    """Graphs recorded for some runs of one shape."""
    inputs: dict[str, Any] = {"a": 2.0, "x": np.ones(64, np.float32), "y": np.ones(64, np.float32)}
    for _ in range(4):
        assert session.dispatch(saxpy_program(), inputs)["y"][0] == 3
    return session.metrics()["graph_recordings"]


@pytest.mark.parametrize(("value", "recorded"), [("1", 1), ("off", 0)])
def test_the_emulated_device_heeds_the_environment(value: str, recorded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_GRAPH_AFTER", value)
    with vyre.open("cuda-machine", cache=False) as session:
        assert replays(session) == recorded


@pytest.mark.parametrize(("graph_after", "recorded"), [(1, 1), (None, 0)])
def test_options_in_the_code_outdo_the_environment(
    graph_after: int | None, recorded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_CUDA_GRAPH_AFTER", "nonsense")
    catalog = cuda_catalog(CudaOptions(graph_after=graph_after, ordinal=7))
    with vyre.open("cuda-machine", catalog=catalog, cache=False) as session:
        assert replays(session) == recorded
        with session.resident(np.ones(4, np.float32)) as array, pytest.raises(BufferError):
            array.__dlpack__()


def test_a_catalog_with_options_has_every_backend() -> None:
    usual, catalog = load_catalog(), cuda_catalog(CudaOptions())
    described = [(each.id, each.rank, each.role, each.api_version) for each in catalog.registrations]
    assert described == [(each.id, each.rank, each.role, each.api_version) for each in usual.registrations]
    assert {*usual.registrations} - {*catalog.registrations} == {CUDA, CUDA_MACHINE}


@pytest.mark.parametrize("start", ["probe", "make"])
def test_a_nonsensical_variable_is_refused(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_COPY_OVERLAP", "perhaps")
    with pytest.raises(InvalidConfig, match="VYRE_CUDA_COPY_OVERLAP='perhaps' is not on or off"):
        getattr(CUDA_MACHINE, start)()


def test_the_probe_tells_what_the_backend_will(monkeypatch: pytest.MonkeyPatch) -> None:
    split = CudaOptions(grid_sync=GridSyncMode.SPLIT)
    chosen = cuda_catalog(split).get("cuda-machine")
    assert chosen is not None
    assert chosen.probe() == chosen.make().profile != CUDA_MACHINE.probe()
    monkeypatch.setenv("VYRE_CUDA_GRID_SYNC", "split")
    assert CUDA_MACHINE.probe() == CUDA_MACHINE.make().profile == chosen.probe()


@pytest.mark.parametrize("given", [None, CudaOptions(ordinal=3, graph_after=None)])
def test_the_real_device_is_opened_with_them(given: CudaOptions | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.adapters.cuda.drivers.real_driver", machine_driver)
    monkeypatch.setenv(ORDINAL.name, "1")
    registration = CUDA if given is None else cuda_catalog(given).get("cuda")
    assert registration is not None
    wanted = 1 if given is None else given.ordinal
    for start in (registration.probe, registration.make):
        with pytest.raises(BackendUnavailable, match=f"device {wanted} does not exist"):
            start()
