"""The OpenCL backend of the examples: what it emits, and where there is a device, what it computes.

The whole contract and the whole check of ``vyre conform`` take minutes, and their record is
``examples/opencl_backend/certificate.json``; these tests take a sample of both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import vyre_opencl
from vyre_opencl.device import ROUNDINGS, find_device
from vyre_opencl.kernel import LACKING, emit
from vyre_opencl.registration import OPENCL

import vyre
from support.limits import LIMIT_S
from vyre import BackendUnavailable, DispatchConfig, Program, UnsupportedFeature
from vyre.domain.op_ids import required_ops
from vyre.gallery.registry import examples
from vyre.lowering import expanded, plan_grid_sync, plan_programs
from vyre.ports import BackendCatalog
from vyre.testing import load_catalog
from vyre.testing.backend_contract import CASES, Skipped, Subject, check_case
from vyre.testing.backend_contract.case import Case
from vyre.testing.conform.certificate import Certificate
from vyre.testing.conform.checking import check, opened_registration
from vyre.testing.execution import Scheduled
from vyre.testing.operator_matrix import operator_matrix
from vyre.testing.operator_programs import OperatorCase

SAMPLED = 24
"""One contract case of so many is run."""
BUDGET_S = 5.0
ROUNDED = re.compile(r"(floor|ceil|trunc|round|round_even) f(32|64) of literals")


# ---------------------------------------------------------------- emission, which needs no device
def test_every_gallery_program_is_emitted_or_refused_by_name() -> None:
    emitted = 0
    for name, example in examples().items():
        for part in plan_programs(plan_grid_sync(expanded(example.program()))):
            if lacking := required_ops(part) & LACKING:
                with pytest.raises(UnsupportedFeature, match=min(lacking)):
                    emit(part)
            else:
                assert emit(part).source.count("__kernel") == 1, name
                emitted += 1
    assert emitted > 40


def test_every_operator_of_every_type_is_emitted_or_refused_by_name() -> None:
    refused = set()
    for case in operator_matrix():
        try:
            emit(case.program)
        except UnsupportedFeature as error:
            refused.add(error.feature)
    assert refused <= LACKING


def test_the_same_program_gives_the_same_source() -> None:
    program = examples()["P01"].program()
    assert emit(program).source == emit(program).source


def test_a_step_budget_with_barriers_is_refused() -> None:
    text = """
    workgroup_size 4, 1, 1
    buffer y @0 write u32[4]
    body { barrier(seq_cst) y[gid.x] = 1u }
    """
    assert not emit(Program.from_text(text)).can_fail
    with pytest.raises(UnsupportedFeature, match="a step budget with barriers"):
        emit(Program.from_text(text), counts_steps=True)


# ---------------------------------------------------------------- on a device
@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POCL_CACHE_DIR", str(tmp_path_factory.mktemp("pocl")))
        try:
            found = find_device()
        except BackendUnavailable as error:
            pytest.skip(str(error))
        yield str(found.name)


@pytest.fixture(scope="module")
def subject(device: str) -> Iterator[Subject]:
    with Subject(OPENCL) as opened:
        yield opened


SAMPLE = [case for case in CASES if zlib.crc32(case.id.encode()) % SAMPLED == 0]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
def test_contract(case: Case, subject: Subject) -> None:
    try:
        check_case(case, subject)
    except Skipped as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
def test_a_sample_of_the_check_finds_no_difference(device: str) -> None:
    with opened_registration(Scheduled(OPENCL, canonical_order=False)) as found:
        certificate = check(found, seed=0, budget_s=BUDGET_S)
    assert certificate.failures == ()
    assert {name for name in certificate.missing_operations if name.startswith("vyre.")} == LACKING
    assert certificate.subject.device["device"]
    assert sum(certificate.witnesses.values()) > 1000


def test_an_installed_package_does_not_change_what_auto_takes(device: str) -> None:
    builtin = load_catalog()
    both = BackendCatalog((OPENCL, *(each for each in builtin.registrations if each.id != OPENCL.id)))
    with vyre.open(catalog=both) as session:
        assert session.backend != "opencl"


def test_a_variable_of_the_environment_chooses_the_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_OPENCL_DEVICE", device.upper())
    assert find_device().name == device
    monkeypatch.setenv("VYRE_OPENCL_DEVICE", "no such device")
    with pytest.raises(BackendUnavailable, match=f"{re.escape(device.strip())} of .* is not the 'no such device'"):
        find_device()


def test_a_constant_may_be_an_index_that_no_element_has(device: str) -> None:
    """Parts between grid barriers are split off before constants become literals, which validation would refuse."""
    text = """
    workgroup_size 1, 1, 1
    buffer y @0 read_write u32[2]
    body { y[spec(c, 1u)] = 5u barrier(grid_sync) y[0u] = y[0u] + 1u }
    """
    with vyre.open("opencl", catalog=BackendCatalog((OPENCL,))) as session:
        for c, wanted in (({}, [1, 5]), ({"c": 9}, [1, 0])):
            found = session.dispatch(Program.from_text(text), {"y": np.zeros(2, np.uint32)}, grid=1, spec=c)["y"]
            assert found.tolist() == wanted


def test_threads_are_refused(device: str) -> None:
    with pytest.raises(UnsupportedFeature, match="threads and affinity"):
        vyre.open("opencl", catalog=BackendCatalog((OPENCL,)), threads=1).close()


@pytest.mark.slow
def test_its_certificate_verifies_in_a_fresh_process(device: str, tmp_path: Path) -> None:
    """The package is on the path with the metadata that an installation writes."""
    metadata = tmp_path / "vyre_opencl-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vyre-opencl\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[vyre.backends]\nopencl = vyre_opencl.registration:OPENCL\n")
    paths = [tmp_path, Path(vyre_opencl.__file__).parents[1], Path(vyre.__file__).parents[1]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}

    def command(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "vyre", "conform", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=True,
            timeout=LIMIT_S,
        )
        return done.stdout

    command("--backend", "opencl", "--budget", "2", "--programs", "3", "-o", "certificate.json")
    assert command("--verify", "certificate.json").endswith("the certificate lists 0 failures; 0 objections\n")


def test_lanes_with_private_arrays_end(device: str) -> None:
    """PoCL 3.1 optimized this kernel to a loop over its lanes that never ended."""
    lane = "((gid.z * (num_groups.y * 2u) + gid.y) * (num_groups.x * 2u) + gid.x)"
    text = f"""
    workgroup_size 2, 2, 2
    buffer x @1 read i64[4]
    buffer y @0 read_write bf16[15]
    buffer shared @- workgroup u16[9]
    buffer other @- workgroup f16[4]
    buffer p @- private bool8[7]
    body {{
      p[{lane}] = (fma(-9.2e18f64, 1e300f64, -1.0f64) != round_even(f64(0x7ff0000000000000))) == is_finite(10.0f)
      switch (x[cast<u64>({lane})] - x[cast<i32>({lane})]) & 7i64 {{
        case 5i64 {{
          for k in 0u .. 1u {{
            let was = select(is_finite(-0.0f), p[lid.y], true)
            p[{lane} * 2u + 1u] = was
          }}
        }}
      }}
    }}
    """
    x, y = np.array([128, 9, 33, 7], np.int64), np.arange(15, dtype=np.uint16)
    with vyre.open("opencl", catalog=BackendCatalog((OPENCL,))) as session:
        config = DispatchConfig(grid=1, timeout_s=20.0, step_budget=200)
        found = session.dispatch(Program.from_text(text), {"x": x, "y": y}, config)["y"]
    np.testing.assert_array_equal(found, y)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in operator_matrix() if ROUNDED.fullmatch(case.name)]
)
def test_literals_are_rounded_to_whole_numbers_when_the_kernel_is_compiled(device: str, case: OperatorCase) -> None:
    """PoCL's functions are undefined beyond an int, and its compiler drops what follows from such a literal."""
    catalog = BackendCatalog((OPENCL, *load_catalog().registrations))
    with vyre.open("opencl", catalog=catalog) as session, vyre.open("reference") as reference:
        found, wanted = (each.dispatch(case.program, case.inputs) for each in (session, reference))
    for buffer in ("y", "z"):
        assert found[buffer].tobytes() == wanted[buffer].tobytes()


@pytest.mark.parametrize("lanes", [32, 128, 1024])
def test_private_memory_of_a_workgroup_fits_the_stack_or_is_refused(device: str, lanes: int) -> None:
    """64 KiB a lane, which the language allows."""
    text = f"""
    workgroup_size {lanes}, 1, 1
    buffer y @0 write u32[{lanes}]
    buffer p @- private u32[16384]
    body {{
      for k in 0u..16384u {{ p[(k * 7u + gid.x) % 16384u] = k + gid.x }}
      barrier(seq_cst)
      y[gid.x] = p[gid.x]
    }}
    """
    with vyre.open("opencl", catalog=BackendCatalog((OPENCL,))) as session:
        try:
            found = session.dispatch(Program.from_text(text), {}, grid=1)["y"]
        except UnsupportedFeature as error:
            assert lanes > 64 and "private memory" in error.feature
        else:
            np.testing.assert_array_equal(found, np.arange(lanes))


@pytest.fixture
def rounded_in_f64(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles as for a device that rounds no f32 quotient, root or ``fma`` correctly."""
    monkeypatch.setattr("vyre_opencl.device.rounding_options", lambda device: [each.without for each in ROUNDINGS])


@pytest.mark.parametrize(
    ("operation", "right"),
    [
        ("x[i] / y[i]", lambda x, y: x / y),
        ("sqrt(x[i])", lambda x, y: np.sqrt(x)),
    ],
    ids=["division", "square_root"],
)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f32 in f64"])
def test_a_million_quotients_and_roots_have_the_bits_of_numpy(
    device: str, operation: str, right: object, dtype: str, request: pytest.FixtureRequest
) -> None:
    """2^20 operands of random bits, subnormals, infinities and NaN among them."""
    assert callable(right)
    if dtype == "f32 in f64":
        request.getfixturevalue("rounded_in_f64")
        dtype = "f32"
    text = f"""
    workgroup_size 256, 1, 1
    buffer x @0 read {dtype}[runtime]
    buffer y @1 read {dtype}[runtime]
    buffer z @2 write {dtype}[runtime] like x
    body {{ let i = gid.x z[i] = {operation} }}
    """
    floats, word = (np.float32, np.uint32) if dtype == "f32" else (np.float64, np.uint64)
    random = np.random.default_rng(21)
    x, y = (random.integers(0, 1 << 8 * word().itemsize, 1 << 20, word, endpoint=False).view(floats) for _ in range(2))
    with vyre.open("opencl", catalog=BackendCatalog((OPENCL,))) as session:
        found = session.compile(Program.from_text(text))({"x": x, "y": y})["z"]
    with np.errstate(all="ignore"):
        wanted = right(x, y)
    wanted[np.isnan(wanted)] = np.abs(floats(np.nan))
    np.testing.assert_array_equal(found.view(word), wanted.view(word))


def test_fma_in_f64_is_rounded_once(device: str, rounded_in_f64: None) -> None:
    """Operands of random bits, and sums so near the middle of two f32 that rounding twice gives the wrong one."""
    rows = 1 << 16
    random = np.random.default_rng(22)
    a, b, c = (random.integers(0, 1 << 32, rows, np.uint32).view(np.float32) for _ in range(3))
    near = np.arange(0, rows, 2)
    tiny = random.integers(1, 1 << 8, near.size) * np.float32(2.0**-23)
    a[near], b[near] = 1 + tiny, 1 - tiny  # the product is a little below 1, half of the last place of c
    c[near] = (1 << 24) + 2 * random.integers(0, 1 << 22, near.size)
    c[near] *= random.choice(np.array([1, -1], np.float32), near.size)
    program = Program.from_text(
        """
        workgroup_size 256, 1, 1
        buffer a @0 read f32[runtime]
        buffer b @1 read f32[runtime]
        buffer c @2 read f32[runtime]
        buffer z @3 write f32[runtime] like a
        body { let i = gid.x z[i] = fma(a[i], b[i], c[i]) }
        """
    )
    catalog = BackendCatalog((OPENCL, *load_catalog().registrations))
    with vyre.open("opencl", catalog=catalog) as session, vyre.open("reference") as reference:
        found, wanted = (each.dispatch(program, {"a": a, "b": b, "c": c})["z"] for each in (session, reference))
    with np.errstate(all="ignore"):
        rounded_twice = (a.astype(np.float64) * b + c).astype(np.float32)
    assert np.count_nonzero(rounded_twice[near] != wanted[near]) > rows // 8
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


# ---------------------------------------------------------------- the record of a full check
def test_the_recorded_certificate_has_no_failure_and_lists_what_is_refused() -> None:
    """It is computed again by ``vyre conform --verify``, with the version of vyre that it names."""
    certificate = Certificate.read(Path(vyre_opencl.__file__).parents[2] / "certificate.json")
    assert certificate.failures == ()
    assert certificate.complete
    assert {name for name in certificate.missing_operations if name.startswith("vyre.")} == LACKING
    assert certificate.subject.backend == "opencl"
    assert sum(certificate.witnesses.values()) > 1_000_000
    refused = {case.text for case in certificate.cases if case.judgement == "refused"}
    assert refused & LACKING
