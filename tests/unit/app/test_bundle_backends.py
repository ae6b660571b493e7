"""Bundles hold code for several backends: each reads its own builds, and the first that can run a bundle gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

import vyre
from support.bundles import FORMS, TEXT_ONLY, decode, saxpy_bundle
from support.small_programs import saxpy_program
from vyre.adapters.bundles import manifest
from vyre.adapters.bundles.manifest import ForeignBuild, encode
from vyre.adapters.cuda.aot.bundles import MACHINE_BUNDLES
from vyre.adapters.discovery import BUILTIN, find_backend, load_catalog
from vyre.app.aot import default_targets, emitters_of
from vyre.app.bundle import open_first, production_facets
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendUnavailable, InvalidConfig, MalformedBundle, UnusableBundle
from vyre.domain.ir.program import Program
from vyre.domain.names import BackendId
from vyre.ports.aot import AotRegistry
from vyre.ports.backend import BackendCatalog, BackendRegistration, BackendRole
from vyre.ports.bundles import AotEmitter, AotTargetId, Build, Bundle, BundleRunner, OwnEmitters
from vyre.ports.support import Surroundings

REFERENCE: Final = next(r for r in load_catalog().registrations if r.bundles is None)


@dataclass(frozen=True)
class Tape:
    """A build for a machine that vyre does not know."""

    target: str
    codes: tuple[bytes, ...]
    length: int

    @property
    def member_names(self) -> tuple[str, ...]:
        return (f"{self.target}.tape",)

    @property
    def assembler(self) -> None:
        return None

    @property
    def origin(self) -> str:
        return "punched"

    def to_json(self) -> dict[str, Any]:
        return {"target": self.target, "length": self.length, "members": [{"kind": "tape"}]}

    def problems(self, bundle: Bundle, /) -> list[str]:
        return [] if self.length == len(self.codes[0]) else [f"the tape has no length of {self.length}"]


@dataclass(frozen=True)
class Punch:
    """The bundle facet of that machine, which is never there."""

    name: str = "punch"
    lacks: str = ""

    @property
    def default_target(self) -> str:
        return "tape8"

    def emitters(self, *, machine_code: bool) -> OwnEmitters:
        def emit(program: Program, config: DispatchConfig) -> Build:
            return Tape("tape8", (self.name.encode(),), len(self.name))

        return OwnEmitters((AotEmitter(AotTargetId("tape8"), emit),), self.lacks if machine_code else "")

    def knows(self, target: str, /) -> bool:
        return target.startswith("tape")

    def build_of(self, value: Mapping[str, Any], codes: tuple[bytes, ...], /) -> Build:
        return Tape(value["target"], codes, value["length"])

    def open(self, bundle: Bundle, surroundings: Surroundings, /) -> BundleRunner:
        raise BackendUnavailable(f"no {self.name} is connected")


def registration(rank: int, facet: Punch | None, role: BackendRole = BackendRole.PRODUCTION) -> BackendRegistration:
    made = replace(REFERENCE, id=BackendId(f"b{rank}"), rank=rank, role=role)
    return made if facet is None else replace(made, bundles=lambda: facet)


def mixed_registry() -> AotRegistry:
    registry = AotRegistry(Punch().emitters(machine_code=False).emitters)
    for target in TEXT_ONLY.targets:
        registry.add(AotEmitter(target, lambda program, config, to=target: TEXT_ONLY.emit(to, program, config)))  # type: ignore[misc]
    return registry


# ---------------------------------------------------------------- files
def mixed(length: int = 5) -> Bundle:
    return replace(saxpy_bundle(), builds=(Tape("tape8", (b"punch",), length), *saxpy_bundle().builds))


def test_whoever_knows_a_build_reads_it_and_others_keep_it() -> None:
    data = encode(mixed())
    assert manifest.decode(data, (Punch(), *FORMS)).bundle == mixed()
    bundle = decode(data).bundle
    assert isinstance(bundle.builds[0], ForeignBuild) and bundle.builds[1:] == saxpy_bundle().builds
    assert bundle.members == ("tape8.tape", "sm_75.ptx", "sm_90.ptx")
    assert encode(bundle) == data
    assert encode(manifest.decode(data, ()).bundle) == data


def test_a_form_refuses_what_makes_no_sense() -> None:
    with pytest.raises(MalformedBundle, match="tape8, the tape has no length of 4"):
        encode(mixed(4))


def test_code_of_other_backends_stands_beside(tmp_path: Path) -> None:
    path = tmp_path / "mixed.vyrz"
    written = vyre.build_bundle(saxpy_program(), path, targets=["tape8", "sm_75"], emitters=mixed_registry())
    assert (written.members, written.made) == (("tape8.tape", "sm_75.ptx"), "punched; PTX only")
    with vyre.load_bundle(path, backend="cuda-machine") as bundle:
        assert bundle.image == "sm_75.ptx"
    vyre.build_bundle(saxpy_program(), path, targets=["tape8"], emitters=mixed_registry())
    with pytest.raises(UnusableBundle, match=r"tape8\.tape: it is code of another kind of device"):
        vyre.load_bundle(path, backend="cuda-machine")


# ---------------------------------------------------------------- who builds, who runs
def test_the_first_backend_of_a_target_emits_for_it() -> None:
    catalog = BackendCatalog(
        (registration(3, Punch("late", "no ink")), registration(1, None), registration(2, Punch("early", "no ink")))
    )
    registry = emitters_of(catalog, machine_code=True)
    build = registry.emit(AotTargetId("tape8"), saxpy_program(), DispatchConfig())
    assert (registry.targets, registry.lacks, build.codes) == (("tape8",), ("no ink",), (b"early",))
    assert emitters_of(catalog, machine_code=False).lacks == ()
    assert default_targets(catalog) == ("tape8",)
    with pytest.raises(BackendUnavailable, match="no backend that builds bundles"):
        default_targets(BackendCatalog((registration(1, None),)))


def test_production_backends_are_tried_in_their_order() -> None:
    catalog = BackendCatalog(
        (
            registration(3, Punch()),
            registration(2, None),
            registration(1, Punch(), BackendRole.EMULATION),
            registration(0, Punch("press")),
        )
    )
    facets = production_facets(catalog)
    assert list(facets) == ["b0", "b3"]
    with pytest.raises(BackendUnavailable, match="no press is connected") as raised:
        open_first(facets, saxpy_bundle())
    assert raised.value.__notes__ == ["backend `b3`: no punch is connected"]
    runner = open_first({**facets, "here": MACHINE_BUNDLES}, saxpy_bundle())
    assert runner.backend == "cuda-machine"
    runner.close()
    with pytest.raises(BackendUnavailable, match="no production backend that runs bundles"):
        open_first({}, saxpy_bundle())


def test_auto_stands_for_what_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = vyre.build_bundle(saxpy_program(), tmp_path / "a.vyrz", emitters=TEXT_ONLY).path
    monkeypatch.setenv("VYRE_BACKEND", "cuda-machine")
    with vyre.load_bundle(path) as bundle:
        assert bundle.backend == "cuda-machine"
    monkeypatch.setenv("VYRE_BACKEND", "reference")
    with pytest.raises(BackendUnavailable, match="`reference` runs no bundles") as raised:
        vyre.load_bundle(path)
    assert raised.value.fix == "use one of cuda, cuda-machine."


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
        vyre.build_bundle(saxpy_program(), tmp_path / "b.vyrz", emitters=emitters, optimize=optimize)
    assert seen == [True, False]
    with pytest.raises(InvalidConfig, match="optimize"):
        vyre.build_bundle(saxpy_program(), tmp_path / "c.vyrz", optimize=1)  # type: ignore[arg-type]
    assert not (tmp_path / "c.vyrz").exists()
