"""Manifests: every code of a diagnostic, versions that shadow each other, and files that were mutated."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from support.fuzzing.manifests import VALID, check, mutated
from vyre.app.cli import main
from vyre.app.dialects import loading
from vyre.app.dialects.loading import load_manifests
from vyre.app.dialects.registry import DialectRegistry
from vyre.domain.dialects.manifests import MAX_MANIFEST_BYTES, read_manifest
from vyre.domain.dialects.operations import Category, Dialect, Operation
from vyre.domain.ir.definitions import Version

OP = '[[ops]]\nid = "{}"\ncategory = "{}"\ninputs = {}\noutputs = {}\n'


def manifest(*operations: str, dialect: str = "acme", version: str = "1.2.0", more: str = "") -> bytes:
    return "\n".join([f'dialect = "{dialect}"\nversion = "{version}"\n{more}', *operations]).encode()


def op(
    name: str = "acme.f", category: str = "A", inputs: str = '[["x", "u32"]]', outputs: str = '[["y", "u32"]]'
) -> str:
    return OP.format(name, category, inputs, outputs)


def with_body(body: str) -> str:
    return f"{op()}body = {json.dumps(body)}\n"


def test_a_manifest_gives_its_operations() -> None:
    reading = read_manifest(VALID.encode(), "acme.toml")
    assert reading.diagnostics == () and reading.manifest is not None
    dialect = reading.manifest.dialect
    square, steps, native = dialect.operations
    assert (dialect.id, dialect.version) == ("acme", Version(1, 2, 0))
    assert square.definition is not None and square.definition.version == Version(1, 2, 0)
    assert square.category is Category.COMPOSITE and square.summary == "x times x"
    assert square.law_texts == ("acme.square(neg(x)) == acme.square(x)",)
    assert steps.definition is not None and [each.name for each in steps.definition.parameters] == ["x", "n"]
    assert native.definition is None and native.category is Category.INTRINSIC
    assert str(steps.signature) == "(x: f32, n: u32) -> f32"


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (b"\xff", ["PARSE"]),
        (b"dialect = ", ["PARSE"]),
        (b"a = " + b"[" * 5000, ["PARSE"]),
        (b"a = " + b"9" * 5000, ["PARSE"]),
        (b'version = "1.2.0"', ["PARSE"]),
        (manifest(more="extra = 1"), ["PARSE"]),
        (manifest(more="ops = 3"), ["PARSE"]),
        (manifest(version="1"), ["PARSE"]),
        (manifest(dialect="a b"), ["PARSE"]),
        (manifest(op(inputs='["x"]')), ["PARSE"]),
        (manifest(op(outputs="[]")), ["PARSE"]),
        (manifest(op(outputs='[["y", "u8"]]')), ["PARSE"]),
        (manifest(dialect=" "), ["EMPTY-DIALECT"]),
        (manifest(version=" "), ["EMPTY-VERSION"]),
        (manifest(dialect="", version=""), ["EMPTY-DIALECT", "EMPTY-VERSION"]),
        (manifest(op("other.f")), ["BAD-OP-ID", "MANIFEST-REJECTED"]),
        (manifest(op("acme.f g")), ["BAD-OP-ID", "MANIFEST-REJECTED"]),
        (manifest(op(category="D"), op("f")), ["BAD-CATEGORY", "BAD-OP-ID", "MANIFEST-REJECTED"]),
        (manifest(op(), op()), ["DUPLICATE-OP", "MANIFEST-REJECTED"]),
        (manifest(with_body("result x +")), ["BAD-BODY", "MANIFEST-REJECTED"]),
        (manifest(with_body("result y")), ["BAD-BODY", "MANIFEST-REJECTED"]),
        (manifest(with_body("result acme.f(x)")), ["BAD-BODY", "MANIFEST-REJECTED"]),
        (
            manifest(with_body("result x } define acme.g version 1.0.0 () -> u32 { result 1u")),
            ["BAD-BODY", "MANIFEST-REJECTED"],
        ),
        (b" " * (MAX_MANIFEST_BYTES + 1), ["UNREADABLE"]),
    ],
)
def test_every_defect_has_a_code(data: bytes, codes: list[str]) -> None:
    reading = read_manifest(data, "acme.toml")
    assert reading.manifest is None
    assert [each.code for each in reading.diagnostics] == [f"E-TOML-{code}" for code in codes]
    for each in reading.diagnostics:
        assert each.fix and each.loc is not None and each.loc.file == "acme.toml"


def written(directory: Path, **files: bytes) -> str:
    for name, data in files.items():
        (directory / f"{name}.toml").write_bytes(data)
    return str(directory)


def codes_of(registry: DialectRegistry) -> list[str]:
    return [each.code for each in registry.snapshot.diagnostics]


def test_directories_are_searched_and_their_defects_told(tmp_path: Path) -> None:
    registry = DialectRegistry()
    path = written(tmp_path, a=VALID.encode(), b=b"=", c=b" " * (MAX_MANIFEST_BYTES + 1))
    (tmp_path / "d.toml").mkdir()
    (tmp_path / "notes.txt").write_text("no manifest")
    load_manifests(registry, f"{path}::/nowhere:{tmp_path / 'a.toml'}")
    assert sorted(codes_of(registry)) == [
        "E-TOML-DIALECT-DIR-ENTRY",
        "E-TOML-DIALECT-DIR-MISSING",
        "E-TOML-DIALECT-DIR-MISSING",
        "E-TOML-EMPTY-DIALECT-PATH",
        "E-TOML-PARSE",
        "E-TOML-UNREADABLE",
    ]
    assert [each.dialect.id for each in registry.snapshot.manifests] == ["acme"]
    assert registry.snapshot.contains("acme.square")


@pytest.mark.parametrize(
    ("versions", "kept"), [(("9.0.0", "10.0.0"), 1), (("10.0.0", "9.0.0"), 0), (("1.0.0", "1.0.0"), 0)]
)
def test_the_higher_version_of_a_dialect_stays(tmp_path: Path, versions: tuple[str, str], kept: int) -> None:
    registry = DialectRegistry()
    first, second = (manifest(op(f"acme.of_{i}"), version=version) for i, version in enumerate(versions))
    load_manifests(registry, written(tmp_path, a=first, b=second))
    assert codes_of(registry) == ["N-TOML-DIALECT-SHADOWED"]
    assert [each.id for each in registry.snapshot.operations_in("acme")] == [f"acme.of_{kept}"]


def test_a_manifest_never_replaces_what_code_registered(tmp_path: Path) -> None:
    registry = DialectRegistry()
    reading = read_manifest(manifest(op()), "code")
    assert reading.manifest is not None
    registry.register(reading.manifest.dialect)
    before = registry.snapshot.operation("acme.f")
    load_manifests(registry, written(tmp_path, a=VALID.encode()))
    assert codes_of(registry) == ["E-TOML-DUPLICATE-OP"]
    assert registry.snapshot.operation("acme.f") is before and not registry.snapshot.manifests


def test_readers_see_one_whole_snapshot() -> None:
    registry = DialectRegistry()
    reading = read_manifest(VALID.encode(), "a")
    assert reading.manifest is not None
    square, steps, _ = reading.manifest.dialect.operations
    torn: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            snapshot = registry.snapshot
            found = sum(snapshot.contains(name) for name in ("acme.square", "acme.steps"))
            if found not in (0, 2) or found != len(snapshot.operations_in("acme")):
                torn.append(found)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    empty = registry.snapshot
    for _ in range(200):
        registry.register(Dialect("acme", Version(1), (square, steps)))
        registry.install(empty)
    done.set()
    for reader in readers:
        reader.join(60)
    assert not torn and Operation.of(square.definition).id == "acme.square"  # type: ignore[arg-type]


def test_the_command_lists_manifests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VYRE_DIALECT_PATH", written(tmp_path, a=VALID.encode(), b=b"="))
    loading.process_path.cache_clear()
    try:
        assert main(["dialects", "list", "acme", "core.add", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert main(["dialects", "list", "nothing"]) != 0
    finally:
        loading.process_path.cache_clear()
    assert [each["id"] for each in found["operations"]] == ["acme.square", "acme.steps", "acme.native", "core.add"]
    assert found["operations"][0]["version"] == "1.2.0"
    assert [each["code"] for each in found["diagnostics"]] == ["E-TOML-PARSE"]


def test_mutated_manifests_give_diagnostics_only() -> None:
    found = [check(mutated(seed)) for seed in range(400)]
    assert sum(reading.manifest is not None for reading in found) > 10
    codes = {diagnostic.code for reading in found for diagnostic in reading.diagnostics}
    assert {"E-TOML-PARSE", "E-TOML-BAD-BODY", "E-TOML-BAD-LAW", "E-TOML-MANIFEST-REJECTED"} <= codes
