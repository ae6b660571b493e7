"""The digest of the emitter's source changes with every file that the emitter is made of, and only a wheel fixes it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Final

import pytest

from support.imports import imports_of
from support.limits import LIMIT_S
from vyre.adapters.source_digest import (
    ALL_SOURCES,
    COARSENESS_NS,
    EMITTER,
    FROZEN,
    LLVM,
    POOL,
    PTX,
    REFERENCE,
    Sources,
    SourceState,
    emitter_digest,
    read_sources,
    running_digest,
    source_files,
)
from vyre.domain.errors import UnreadableFile

ROOT: Final = Path(__file__).parents[3]
PACKAGE: Final = ROOT / "src" / "vyre"
EMIT: Final = "vyre.adapters.cuda.ptx.emit"
ROOTS: Final[dict[Sources, tuple[str, ...]]] = {
    PTX: (EMIT,),
    LLVM: ("vyre.adapters.cpu.llvm.emit", "vyre.adapters.cpu.native.compilation"),
    POOL: ("vyre.adapters.cpu.pool.translation", "vyre.adapters.cpu.native.compilation"),
    REFERENCE: ("vyre.adapters.reference.executor", "vyre.domain.numerics.scalar", "vyre.domain.dialects.expansion"),
}
"""The modules that generate the code of which each digest tells."""
NAMESPACES: Final = (
    "adapters/__init__.py",
    "adapters/cpu/__init__.py",
    "adapters/cuda/__init__.py",
    "policies/launching/__init__.py",
    "ports/__init__.py",
    "policies/__init__.py",
    "__init__.py",
    "exporting.py",
)
"""Packages on the way, and what finds the names that they export: they hold nothing that generates code, which a test
below sees of those that are empty.
"""


# ---------------------------------------------------------------- which files count
def module_path(name: str) -> Path | None:
    base = PACKAGE.parent.joinpath(*name.split("."))
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)


def closure(root: str) -> set[str]:
    """Files below the package that importing ``root`` may read."""
    found: dict[str, Path] = {}
    todo = [root]
    while todo:
        name = todo.pop()
        path = module_path(name)
        if path is None or name in found or not name.startswith("vyre."):
            continue
        found[name] = path
        todo += [name.rpartition(".")[0], *imports_of(path)]
    return {path.relative_to(PACKAGE).as_posix() for path in found.values()}


def test_everything_that_the_emitter_imports_counts() -> None:
    assert closure(EMIT) - set(source_files(PACKAGE)) <= set(NAMESPACES)


BESIDE: Final = frozenset(
    {
        "adapters/forks.py",
        "adapters/cpu/native/__init__.py",
        "adapters/cpu/native/features.py",
        "adapters/cpu/native/memory.py",
        "ports/collecting.py",
        "ports/interrupts.py",
    }
)
"""Modules that the compiler imports and that have no part in its result: the features are in the key themselves, and
what forks, collections and interrupts do to a compilation changes none of its bytes.
"""


def test_everything_that_writes_llvm_text_counts() -> None:
    found = closure("vyre.adapters.cpu.llvm.emit") | closure("vyre.adapters.cpu.native.compilation")
    assert found - set(source_files(PACKAGE, LLVM.parts)) <= {*NAMESPACES, *BESIDE}


@pytest.mark.parametrize("sources", ALL_SOURCES, ids=lambda sources: sources.frozen)
def test_each_digest_tells_of_the_modules_that_generate_its_code(sources: Sources) -> None:
    files = set(source_files(PACKAGE, sources.parts))
    assert {f"{name.removeprefix('vyre.').replace('.', '/')}.py" for name in ROOTS[sources]} <= files
    assert len({emitter_digest(each) for each in ALL_SOURCES}) == len(ALL_SOURCES)


def test_every_part_is_needed() -> None:
    needed = closure(EMIT)
    assert [part for part in EMITTER if not any(path.startswith(part) for path in needed)] == []
    assert "domain/numerics/transcendentals.py" in needed


def test_packages_on_the_way_hold_no_code() -> None:
    for name in NAMESPACES[:-4]:  # the last four import by name what others define
        body = ast.parse((PACKAGE / name).read_text("utf-8")).body
        assert all(isinstance(node, ast.Expr) for node in body), name


def test_what_a_process_loads_to_emit_is_in_the_closure() -> None:
    """Imports that no syntax tree shows, such as ``import_module``, would be missed otherwise."""
    code = (
        "import sys, vyre\n"
        "with vyre.ProgramBuilder('p', workgroup=64) as p:\n"
        "    x, y = p.input('x', vyre.f32), p.inout('y', vyre.f32)\n"
        "    y[p.global_id()] = vyre.sin(x[p.global_id()])\n"
        f"from {EMIT} import emit\n"
        "before = set(sys.modules)\n"
        "program = p.build()\n"
        "emit(program)\n"
        "print(*(sys.modules[name].__file__ for name in sorted(set(sys.modules) - before) if name.startswith('vyre')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    loaded = {Path(path).relative_to(PACKAGE).as_posix() for path in done.stdout.split()}
    assert loaded <= set(source_files(PACKAGE))


# ---------------------------------------------------------------- what changes the digest
@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = tmp_path_factory.mktemp("source") / "vyre"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def test_a_copy_has_the_same_digest(copy: Path) -> None:
    assert read_sources(copy).digest == read_sources(PACKAGE).digest


@pytest.mark.parametrize(
    "edited",
    [
        "adapters/cuda/ptx/emit.py",
        "adapters/cuda/ptx/integer.py",
        "domain/numerics/tables.py",
        "domain/ir/operators.py",
        "domain/analysis/wide_access.py",
        "adapters/cuda/decisions/ptxas_hazard_table.py",
    ],
)
def test_an_edit_changes_the_digest(copy: Path, edited: str) -> None:
    before, path = read_sources(copy).digest, copy / edited
    content = path.read_bytes()
    path.write_bytes(content.replace(b"e", b"f", 1))
    assert read_sources(copy).digest != before
    path.write_bytes(content)
    assert read_sources(copy).digest == before


def test_new_renamed_and_removed_files_change_the_digest(copy: Path) -> None:
    digests = [read_sources(copy).digest]
    new = copy / "policies/emission/new_rule.py"
    new.write_bytes(b"")
    digests.append(read_sources(copy).digest)
    new = new.rename(new.with_name("newer_rule.py"))
    digests.append(read_sources(copy).digest)
    assert len(set(digests)) == 3
    new.unlink()
    assert read_sources(copy).digest == digests[0]


def test_other_files_do_not_count(copy: Path) -> None:
    before = read_sources(copy).digest
    (copy / "adapters/cuda/runtime/launch.py").write_text("")
    (copy / "policies/caching/cost_eviction.py").write_text("")
    (copy / "domain/__pycache__").mkdir()
    (copy / "domain/__pycache__/names.py").write_text("")
    (copy / "domain/notes.txt").write_text("")
    assert read_sources(copy).digest == before


def test_content_does_not_move_between_files(tmp_path: Path) -> None:
    digests = set()
    for contents in (("ab", "c"), ("a", "bc"), ("abc", "")):
        for name, content in zip(("a.py", "b.py"), contents, strict=True):
            (tmp_path / name).write_text(content)
        digests.add(read_sources(tmp_path, ("a.py", "b.py")).digest)
    assert len(digests) == 3


@pytest.mark.parametrize("part", ["gone.py", "gone", "empty"])
def test_missing_source_is_an_error(tmp_path: Path, part: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableFile, match=part):
        read_sources(tmp_path, (part,))


# ---------------------------------------------------------------- of which process
def test_source_that_is_older_than_the_process_stands_for_it() -> None:
    state = SourceState(b"d" * 32, changed_ns=99)
    assert running_digest(state, since_ns=100 + COARSENESS_NS) == state.digest


@pytest.mark.parametrize("changed_ns", [100, 101])
def test_source_that_changed_after_the_import_stands_for_nothing(changed_ns: int) -> None:
    state = SourceState(b"d" * 32, changed_ns)
    found = {running_digest(state, since_ns=100 + COARSENESS_NS) for _ in range(3)}
    assert len(found) == 3
    assert state.digest not in found
    assert {len(digest) for digest in found} == {32}


def run_on(package: Path, code: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=LIMIT_S
    )
    return done.stdout.split()


def age(package: Path) -> None:
    """Let every file be an hour old."""
    then = time.time() - 3600
    for path in package.rglob("*.py"):
        os.utime(path, (then, then))


def test_processes_on_the_same_source_agree_and_an_edit_tells_them_apart(tmp_path: Path) -> None:
    package = tmp_path / "vyre"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    code = "from vyre.adapters.source_digest import emitter_digest as d; assert d() is d(); print(d().hex())"
    age(package)
    edit = f"import vyre, pathlib; pathlib.Path({str(package)!r}, 'domain/names.py').touch()\n"
    original = read_sources(package).digest.hex()
    assert run_on(package, code) == run_on(package, code) == [original]
    assert run_on(package, edit + code) != [original]  # this process may run either version
    age(package)
    assert run_on(package, code) == [original]
    path = package / "adapters/cuda/ptx/emit.py"
    path.write_text(path.read_text("utf-8") + "# edited\n", "utf-8")
    age(package)
    assert run_on(package, code) == [read_sources(package).digest.hex()] != [original]


def test_this_process_has_one_digest() -> None:
    assert emitter_digest() is emitter_digest()
    assert len(emitter_digest()) == 32


# ---------------------------------------------------------------- in wheels
def build(version: str, into: Path, root: Path = ROOT) -> zipfile.ZipFile:
    from hatchling.builders.wheel import WheelBuilder

    (path,) = WheelBuilder(str(root)).build(directory=str(into), versions=[version])
    return zipfile.ZipFile(path)


def test_the_wheel_of_the_source_distribution_holds_the_same_files(tmp_path: Path) -> None:
    from hatchling.builders.sdist import SdistBuilder

    (path,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path / "dist"))
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / Path(path).name.removesuffix(".tar.gz")
    with build("standard", tmp_path / "direct") as wheel, build("standard", tmp_path / "by-sdist", unpacked) as other:
        assert sorted(wheel.namelist()) == sorted(other.namelist())
        assert "vyre/gallery/data/photograph.pgm" in other.namelist()


def test_a_wheel_carries_the_digest_of_its_source_and_uses_it(tmp_path: Path) -> None:
    with build("standard", tmp_path / "dist") as wheel:
        frozen = wheel.read(f"vyre/{FROZEN}").decode()
        wheel.extractall(tmp_path / "site")
    package = tmp_path / "site" / "vyre"
    assert frozen == read_sources(PACKAGE).digest.hex() == read_sources(package).digest.hex()
    code = "from vyre.adapters.source_digest import emitter_digest; print(emitter_digest().hex())"
    shutil.rmtree(package / "policies" / "emission")  # not even read
    assert run_on(package, code) == [frozen]


def test_an_editable_install_carries_none(tmp_path: Path) -> None:
    with build("editable", tmp_path) as wheel:
        assert not [name for name in wheel.namelist() if name.endswith(FROZEN)]
    assert not (PACKAGE / FROZEN).exists()
