"""Bundles hold code for several backends: who builds it, and who takes it."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.bundles import TEXT_ONLY, copy_program, saxpy_bundle
from support.small_programs import saxpy_program
from vyre.adapters.bundles.files import write_bundle
from vyre.adapters.bundles.manifest import decode, encode
from vyre.adapters.discovery import BUILTIN, find_backend, load_catalog
from vyre.app.aot import default_targets, emitters_of
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendUnavailable, InvalidConfig, UnknownEntry, UnsupportedFeature
from vyre.domain.ir.program import Program
from vyre.domain.names import BackendId
from vyre.ports.aot import AotRegistry
from vyre.ports.artifact_store import Artifact
from vyre.ports.backend import BackendCatalog, BackendRegistration
from vyre.ports.bundles import AotEmitter, AotTargetId, Build, BundledCode, OwnEmitters, bundled_code

REFERENCE: Final = next(r for r in load_catalog().registrations if r.bundles is None)
TAPE: Final = AotTargetId("tape8")
X: Final = np.arange(5, dtype=np.float32)
Y: Final = np.ones(5, np.float32)
INPUTS: Final[dict[str, float | npt.NDArray[np.float32]]] = {"a": 2.0, "x": X, "y": Y}


@dataclass(frozen=True)
class Punch:
    """The bundle facet of a machine that vyre does not know."""

    name: str = "punch"
    lacks: str = ""

    @property
    def default_target(self) -> str:
        return "tapes"

    def emitters(self, *, machine_code: bool) -> OwnEmitters:
        def emit(program: Program, config: DispatchConfig) -> Build:
            key = ArtifactKey(kind=ArtifactKind.OBJECT, target="tape", program=program.digest)
            return Build((BundledCode(TAPE, key, Artifact(b"holes", self.name.encode())),), "punched")

        return OwnEmitters((AotEmitter(TAPE, emit),), self.lacks if machine_code else "", {"tapes": (TAPE,)})

    def c_files(self, name: str, entries: Mapping[str, Program], /) -> Mapping[str, bytes]:
        return {}


def registration(rank: int, facet: Punch | None) -> BackendRegistration:
    made = replace(REFERENCE, id=BackendId(f"b{rank}"), rank=rank)
    return made if facet is None else replace(made, bundles=lambda: facet)


def mixed_registry() -> AotRegistry:
    registry = AotRegistry(Punch().emitters(machine_code=False).emitters)
    for target in TEXT_ONLY.targets:
        registry.add(AotEmitter(target, lambda program, config, to=target: TEXT_ONLY.emit(to, program, config)))  # type: ignore[misc]
    return registry


# ---------------------------------------------------------------- who takes code
@pytest.mark.parametrize("backend", ["cuda-machine", "cpu"])
def test_code_of_other_backends_stands_beside(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "mixed.vyrz"
    written = vyre.build_bundle(saxpy_program(), path, targets=["tape8", "sm_75"], emitters=mixed_registry())
    assert (written.members, written.made) == (("tape8.object", "sm_75.ptx"), "punched; PTX only")
    bundle = vyre.load_bundle(path)
    assert encode(decode(path.read_bytes()).bundle) == path.read_bytes()
    with vyre.open(backend, cache=False) as session:
        assert session.dispatch(bundle["saxpy"], INPUTS)["y"].tolist() == [1, 3, 5, 7, 9]
        assert session.metrics()["emits"] == (backend == "cpu")


def test_an_entry_point_is_a_program_under_its_name(tmp_path: Path) -> None:
    write_bundle(tmp_path / "two.vyrz", saxpy_bundle())
    bundle = vyre.load_bundle(tmp_path / "two.vyrz")
    assert list(bundle) == ["saxpy", "copy"] and len(bundle) == 2 and "copy" in bundle and "other" not in bundle
    for name, program in bundle.items():
        assert type(program) is Program and program.program is program and program.name == name
    assert bundle["saxpy"] == saxpy_program() and bundle["copy"] == copy_program()
    assert [(b.name, b.element.text) for b in bundle["saxpy"].abi_buffers] == [("a", "f32"), ("x", "f32"), ("y", "f32")]
    assert repr(bundle) == "<LoadedBundle saxpy, copy: sm_75.ptx, sm_90.ptx>"
    with pytest.raises(UnknownEntry, match="no entry point 'other'") as raised:
        bundle["other"]
    assert raised.value.fix == "its entry points are `saxpy`, `copy`."


def test_code_is_taken_as_long_as_bundle_or_program_are_in_use(tmp_path: Path) -> None:
    write_bundle(tmp_path / "two.vyrz", saxpy_bundle())
    digest = saxpy_program().digest
    gc.collect()
    before = len(list(bundled_code(digest)))
    bundle = vyre.load_bundle(tmp_path / "two.vyrz")
    program = bundle["copy"]
    del bundle
    gc.collect()
    assert len(list(bundled_code(digest))) == before + 4
    with vyre.open("cuda-machine", cache=False) as session:
        assert session.dispatch(program, {"x": np.arange(3, dtype=np.uint32)})["y"].tolist() == [0, 1, 2]
        assert session.metrics()["emits"] == 0
    del program, session
    gc.collect()
    assert len(list(bundled_code(digest))) == before


@pytest.mark.parametrize("backend", ["cuda-machine", "cpu"])
def test_every_way_to_run_takes_the_code_of_a_bundle(backend: str, tmp_path: Path) -> None:
    targets = ["cpu"] if backend == "cpu" else ["sm_75"]
    written = vyre.build_bundle(
        {"saxpy": saxpy_program(), "copy": copy_program()}, tmp_path / "b.vyrz", targets=targets
    )
    bundle = vyre.load_bundle(written.path)
    with vyre.open(backend, cache=False) as session:
        with session.resident(X) as x, session.resident(Y) as y:
            session.bind_resident(bundle["saxpy"], {"a": 2.0, "x": x, "y": y})()
            assert y.download().tolist() == [1, 3, 5, 7, 9]
            session.sequence([vyre.Step(bundle["saxpy"], {"a": 1.0, "x": x, "y": y})] * 2)()
            assert y.download().tolist() == [1, 5, 9, 13, 17]
        assert session.bind(bundle["saxpy"], INPUTS)()["y"].tolist() == [1, 3, 5, 7, 9]
        assert session.submit(bundle["saxpy"], INPUTS).result(60)["y"].tolist() == [1, 3, 5, 7, 9]
        assert session.metrics()["emits"] == 0
        if backend == "cpu":
            with session.persistent(bundle["saxpy"]) as jobs:
                assert jobs.submit(INPUTS).result(60)["y"].tolist() == [1, 3, 5, 7, 9]
            assert session.metrics()["emits"] == 0


# ---------------------------------------------------------------- who builds
def test_the_first_backend_of_a_target_emits_for_it() -> None:
    catalog = BackendCatalog(
        (registration(3, Punch("late", "no ink")), registration(1, None), registration(2, Punch("early", "no ink")))
    )
    registry = emitters_of(catalog, machine_code=True)
    (code,) = registry.emit(TAPE, saxpy_program(), DispatchConfig()).codes
    assert (registry.targets, registry.lacks, code.artifact.code) == (("tape8",), ("no ink",), b"early")
    assert registry.expanded(["sm_75", "tapes"]) == ("sm_75", "tape8")
    assert emitters_of(catalog, machine_code=False).lacks == ()
    assert default_targets(catalog, registry) == ("tapes",)
    with pytest.raises(BackendUnavailable, match="no backend that builds bundles"):
        default_targets(BackendCatalog((registration(1, None),)), registry)


def test_no_target_is_the_default_of_each_backend_that_compiles_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vyre.adapters.cuda.code_tools.find_tools", lambda _: ())
    written = vyre.build_bundle(saxpy_program(), tmp_path / "a.vyrz")
    assert written.members[0] == "sm_75.ptx" and written.members[1].startswith("cpu-")
    monkeypatch.setattr("vyre.adapters.cpu.aot.emitters.llvm_version", lambda: None)
    written = vyre.build_bundle(saxpy_program(), tmp_path / "a.vyrz")
    assert written.members == ("sm_75.ptx",)
    assert written.made == "PTX only: no ptxas was found: no llvmlite, which compiles for `cpu`, was found"
    with pytest.raises(UnsupportedFeature, match=r"aot target cpu.*no llvmlite"):
        vyre.build_bundle(saxpy_program(), tmp_path / "a.vyrz", targets=["cpu"])


def test_a_backend_is_found_by_its_name() -> None:
    for reference in BUILTIN:
        found = find_backend(reference.name)
        assert found is not None and found.id == reference.name
    assert find_backend("nobody") is None


def test_emitters_are_told_whether_they_may_optimize(tmp_path: Path) -> None:
    seen: list[bool] = []

    def emit(program: Program, config: DispatchConfig) -> Build:
        seen.append(config.optimize)
        return TEXT_ONLY.emit(AotTargetId("sm_75"), program, config)

    emitters = AotRegistry([AotEmitter(AotTargetId("sm_75"), emit)])
    for optimize in (True, False):
        vyre.build_bundle(saxpy_program(), tmp_path / "b.vyrz", targets=["sm_75"], emitters=emitters, optimize=optimize)
    assert seen == [True, False]
    with pytest.raises(InvalidConfig, match="optimize"):
        vyre.build_bundle(saxpy_program(), tmp_path / "c.vyrz", optimize=1)  # type: ignore[arg-type]
    assert not (tmp_path / "c.vyrz").exists()
