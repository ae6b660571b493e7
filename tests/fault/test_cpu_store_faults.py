"""Stored machine code when processes die, files are damaged and stores move to other processors: sessions give the
right bytes, and say why they compiled.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import vyre
from support.disk_cache import entry_files, store
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.profiles import SOAK
from support.small_programs import square_program
from vyre.adapters.cpu.native import compilation, features
from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.adapters.cpu.runtime.runtime_code import load_entries
from vyre.adapters.cpu.runtime.tools import MachineCode, native_tools
from vyre.ports.execution import CacheOutcome

pytestmark = NEEDS_LLVM

TESTS: Final = Path(__file__).parents[1]
KILLS: Final = 60 if SOAK else 2
FLIPS: Final = 400 if SOAK else 12
X: Final = np.arange(100, dtype=np.uint32)
WANT: Final = (X * X).tobytes()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def outcome() -> tuple[CacheOutcome, str]:
    """Squares numbers in a session of its own; returns where the code came from, and why."""
    program = square_program()
    with vyre.open("cpu", threads=2) as session:
        found = session.compile(program)
        assert session.dispatch(program, [X])["y"].tobytes() == WANT
        return found.cache, found.reason


def objects(root: Path) -> list[Path]:
    """The files of the objects of the program."""
    program = square_program()
    return [path for path in entry_files(root) if program.digest in path.read_bytes()]


WRITER: Final = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import vyre
TEXT = '''workgroup_size 64, 1, 1 buffer x @0 read_write u32[64]
body { x[gid.x] = x[gid.x] * 3u + SEEDu }'''
number = int(sys.argv[2])
while True:
    number += 1
    print("storing", flush=True)
    with vyre.open("cpu", threads=1) as session:
        program = vyre.Program.from_text(TEXT.replace("SEED", str(number % 20)))
        found = session.dispatch(program, [np.arange(64, dtype=np.uint32)])["x"]
        assert found.tolist() == [3 * k + number % 20 for k in range(64)]
"""


def test_sessions_that_are_killed_while_they_store_leave_a_good_store(
    root: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("killed_writers", KILLS)
    rng = random.Random(7)
    text = WRITER.partition("'''")[2].partition("'''")[0]
    for _ in range(KILLS // 2):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(TESTS), str(rng.randrange(20))],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None and writer.stderr is not None
            for _ in range(rng.randrange(2, 5)):
                assert writer.stdout.readline() == b"storing\n", writer.stderr.read()
        time.sleep(rng.random() * 0.1)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            _, told = writer.communicate(timeout=LIMIT_S)
            assert writer.returncode == -signal.SIGKILL, told
    assert entry_files(root)
    with vyre.open("cpu", threads=2) as session:
        for number in range(20):
            program = vyre.Program.from_text(text.replace("SEED", str(number)))
            found = session.dispatch(program, [np.arange(64, dtype=np.uint32)])["x"]
            assert found.tolist() == [3 * k + number for k in range(64)]
    assert store(root).stats().corrupt == 0
    assert not list((root / "v1").glob("quarantine/*"))


def test_damaged_objects_are_compiled_again(root: Path, record_property: Callable[[str, object], None]) -> None:
    assert outcome()[0] is CacheOutcome.MISS
    assert outcome()[0] is CacheOutcome.HIT
    (path,) = objects(root)
    good, rng = path.read_bytes(), random.Random(3)
    places = sorted({0, len(good) - 1, *(rng.randrange(len(good)) for _ in range(FLIPS))})
    record_property("damaged_entries", len(places) + 5)
    for at in places:
        spoiled = bytearray(good)
        spoiled[at] ^= 1 << rng.randrange(8)
        path.write_bytes(spoiled)
        assert outcome()[0] is CacheOutcome.MISS, at
        assert outcome()[0] is CacheOutcome.HIT
    for length in (0, 1, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        assert outcome()[0] is CacheOutcome.MISS, length
    path.write_bytes(good + b"\0")
    assert outcome()[0] is CacheOutcome.MISS


def test_an_object_in_the_place_of_another_is_not_run(root: Path) -> None:
    """Whole files, whose names were exchanged."""
    programs = [vyre.Program.from_text(OTHER.replace("SEED", str(number))) for number in (3, 5)]

    def outcomes() -> list[CacheOutcome]:
        found = []
        with vyre.open("cpu", threads=2) as session:
            for number, program in zip((3, 5), programs, strict=True):
                found.append(session.compile(program).cache)
                assert session.dispatch(program, [X])["x"].tolist() == (X * number).tolist()
        return found

    assert outcomes() == [CacheOutcome.MISS] * 2
    first, second = (
        next(path for path in entry_files(root) if path.name.startswith(f"{program.digest.hex()}-object-"))
        for program in programs
    )
    held = first.read_bytes(), second.read_bytes()
    first.write_bytes(held[1])
    second.write_bytes(held[0])
    assert outcomes() == [CacheOutcome.MISS] * 2
    assert outcomes() == [CacheOutcome.HIT] * 2


OTHER: Final = """workgroup_size 64, 1, 1 buffer x @0 read_write u32[100]
body { if gid.x < 100u { x[gid.x] = x[gid.x] * SEEDu } }"""


def test_a_damaged_runtime_of_the_workers_is_compiled_again(
    root: Path, record_property: Callable[[str, object], None]
) -> None:
    """It is never loaded; the compiler is replaced by one that returns what was compiled before."""
    native = native_tools()
    compiled: list[bytes] = []
    loaded: list[bytes] = []

    def compile_once(text: str, features: CpuFeatures, effort: Effort) -> bytes:
        compiled.append(compiled[0] if compiled else native.compile(text, features, effort))
        return compiled[-1]

    def load(image: bytes) -> MachineCode:
        loaded.append(image)
        return native.load(image)

    tools = replace(native, compile=compile_once, load=load)
    load_entries(tools, store(root))
    load_entries(tools, store(root))
    assert len(compiled) == 1
    (path,) = entry_files(root)
    nbytes, rng = path.stat().st_size, random.Random(5)
    places = sorted({0, nbytes - 1, *(rng.randrange(nbytes) for _ in range(FLIPS))})
    record_property("damaged_entries", len(places))
    for at in places:
        spoiled, before = bytearray(path.read_bytes()), len(compiled)
        spoiled[at] ^= 1 << rng.randrange(8)
        path.write_bytes(spoiled)
        load_entries(tools, store(root))
        assert len(compiled) == before + 1, at
        load_entries(tools, store(root))
        assert len(compiled) == before + 1, at
    assert set(loaded) == {compiled[0]}


def test_a_store_moved_to_a_lesser_processor_misses_and_says_why(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code that is made there is kept beside the other, and both processors find their own."""
    here = features.host()
    richer = here._replace(features=tuple(sorted({*here.features, "zz-foreign"})))
    monkeypatch.setattr(features, "host", lambda: richer)
    native = compilation.compile_object
    monkeypatch.setattr(compilation, "compile_object", lambda text, _, effort: native(text, here, effort))
    assert outcome()[0] is CacheOutcome.MISS
    assert outcome()[0] is CacheOutcome.HIT
    monkeypatch.setattr(features, "host", lambda: here)
    found, why = outcome()
    assert found is CacheOutcome.MISS
    assert "zz-foreign: yes -> -" in why
    assert outcome()[0] is CacheOutcome.HIT
    monkeypatch.setattr(features, "host", lambda: richer)
    assert outcome()[0] is CacheOutcome.HIT
    assert len(objects(root)) == 2
