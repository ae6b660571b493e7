"""Keys of PTX and of machine code: whatever decides the bytes is in them, and they cost next to nothing."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from support.limits import LIMIT_S
from support.programs import generate
from vyre import ProgramBuilder, f32, u32
from vyre.adapters.cuda.code_tools import Assembler, Ptxas
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import ALL_ON, EmitOptions, Switches
from vyre.adapters.cuda.runtime import artifact_keys
from vyre.adapters.cuda.runtime.artifact_keys import cubin_keys, interface_names, policy_facts, ptx_keys
from vyre.adapters.cuda.runtime.facts import CudaDeviceFacts, probe_facts
from vyre.adapters.cuda.seam import JitOptions
from vyre.adapters.source_digest import emitter_digest
from vyre.domain.artifact_key import ArtifactKind
from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.buffers import BufferHints, CacheLocality
from vyre.domain.ir.expr import Literal, SpecConst
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.program_report import InvalidProgram
from vyre.domain.specialization import SpecMap, complete_spec
from vyre.gallery.registry import examples

OPTIONS: Final = EmitOptions()
OTHER: Final[dict[str, Any]] = {
    "target": 120,
    "assume": frozenset({Assumption.NOALIAS}),
    "native_grid_sync": False,
    "pointer_table": True,
    "parameter_limit": 32_764,
    "assembler": (13, 0),
    "switches": replace(ALL_ON, wide_access=False),
    "folded": True,
    "mailbox": True,
    "passes": "folding/1",
    "located": True,
}
"""Another value of every option: a new one belongs here."""
TOOL: Final = Ptxas(Assembler(Path("ptxas"), (13, 0), "13.0.88")).named(JitOptions(3))


def program() -> Program:
    with ProgramBuilder("p", workgroup=32) as p:
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * p.spec("scale", f32(2.0)) + p.spec("offset", f32(1.0))
    return p.build()


def device(**changes: Any) -> CudaDeviceFacts:
    driver = MachineDriver()
    driver.init()
    return replace(probe_facts(driver, 0), **changes)


# ---------------------------------------------------------------- options
def test_every_option_has_another_value_here() -> None:
    assert [field.name for field in fields(EmitOptions)] == list(OTHER)


@pytest.mark.parametrize("name", OTHER)
def test_every_option_is_in_the_key(name: str) -> None:
    one, other = (ptx_keys(options).key(program()) for options in (OPTIONS, replace(OPTIONS, **{name: OTHER[name]})))
    differing = {"target": ("target",), "located": ("policy", "interface")}
    assert one.differences(other) == differing.get(name, ("policy",))
    assert one.digest != other.digest


@pytest.mark.parametrize("name", [field.name for field in fields(Switches)])
def test_every_switch_is_in_the_key(name: str) -> None:
    off = replace(OPTIONS, switches=replace(ALL_ON, **{name: False}))
    changed = set(policy_facts(OPTIONS)) ^ set(policy_facts(off))
    assert changed == {(f"switches.{name}", "true"), (f"switches.{name}", "false")}


def test_different_values_of_an_option_are_written_differently() -> None:
    values: dict[str, list[Any]] = {
        "assume": [frozenset(), *(frozenset({a}) for a in Assumption), frozenset(Assumption)],
        "pointer_table": [None, False, True],
        "parameter_limit": [0, 1, 4096],
        "assembler": [None, (1, 21), (12, 1), (13, 0)],
    }
    for name, found in values.items():
        written = {dict(policy_facts(replace(OPTIONS, **{name: value})))[name] for value in found}
        assert len(written) == len(found), name


def test_an_option_of_a_new_type_is_refused() -> None:
    @dataclass(frozen=True)
    class Inner:
        ratio: float = 0.5

    assert is_dataclass(Inner)
    with pytest.raises(TypeError, match="no key has an option of type float"):
        artifact_keys._written(Inner())


# ---------------------------------------------------------------- programs
def test_the_fields_of_a_key_of_ptx() -> None:
    p = program()
    spec = complete_spec(p, {"scale": 3.0})
    key = ptx_keys(OPTIONS).key(p, spec)
    assert (key.kind, key.target, key.device, key.driver, key.tool) == (ArtifactKind.PTX, "sm_90", (), "", "")
    assert key.program == p.digest
    assert key.interface == interface_names(p) == ("0 x", "1 y")
    assert key.workgroup == (32, 1, 1)
    assert key.spec == SpecMap({"offset": 1.0, "scale": 3.0}).canonical_bytes()
    assert key.emitter == emitter_digest()
    assert dict(key.policy).keys() == {*OTHER, *(f"switches.{f.name}" for f in fields(Switches))} - {
        "target",
        "switches",
    }


def test_programs_that_differ_for_a_caller_alone_have_keys_of_their_own() -> None:
    base = program()
    with ProgramBuilder("p", workgroup=32) as p:
        x = p.input("a", f32)
        y = p.output("b", f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * p.spec("scale", f32(2.0)) + p.spec("offset", f32(1.0))
    renamed = p.build()
    moved = replace(base, buffers=tuple(replace(b, binding=b.binding * 3) for b in base.buffers))
    keys = ptx_keys(OPTIONS)
    for other in (renamed, moved):
        assert other.digest == base.digest
        assert keys.key(base).differences(keys.key(other)) == ("interface",)


def test_a_workgroup_that_is_not_the_programs_is_a_field_of_its_own() -> None:
    keys, p = ptx_keys(OPTIONS), program()
    launched = keys.key(p, workgroup=(64, 1, 1))
    assert keys.key(p).differences(launched) == ("workgroup",)
    assert keys.key(p, workgroup=(64, 1, 1)) == launched


def test_leaving_a_constant_out_means_its_default() -> None:
    keys, p = ptx_keys(OPTIONS), program()
    found = {keys.key(p, complete_spec(p, spec)).digest for spec in (None, {}, {"scale": 2.0}, {"offset": 1.0})}
    assert len(found) == 1
    assert keys.key(p, complete_spec(p, {"scale": 4.0})).digest not in found


def test_a_constant_of_another_type_has_no_key() -> None:
    wide = SpecConst("n", Literal(ScalarType.U64, 1))
    base = program()
    with pytest.raises(InvalidConfig, match="u64 is no type of a specialization constant"):
        complete_spec(replace(base, body=(Store("y", wide, wide),)), None)


def test_a_program_whose_names_do_not_resolve_has_no_key() -> None:
    index = Literal(ScalarType.U32, 0)
    broken = replace(program(), body=(Store("nowhere", index, index),))
    with pytest.raises(InvalidProgram, match="nowhere"):
        ptx_keys(OPTIONS).key(broken)


def labelled(source: random.Random, p: Program) -> Program:
    """The same program with other labels and hints, and its buffers declared in another order."""
    hints = BufferHints(source.choice((None, 0)), source.choice((0, 32)), source.choice(list(CacheLocality)))
    buffers = source.sample(p.buffers, len(p.buffers))
    return replace(p, name="other", buffers=tuple(replace(b, hints=hints) for b in buffers))


def test_programs_of_one_key_are_launched_alike() -> None:
    source, keys = random.Random(7), ptx_keys(OPTIONS)
    programs = [example.program() for example in examples().values()]
    programs += [generate(seed).program for seed in range(30)]
    for p in programs:
        other = labelled(source, p)
        assert keys.key(p) == keys.key(other)
        for one, two in zip(emit(p, OPTIONS).kernels, emit(other, OPTIONS).kernels, strict=True):
            # Where workgroup memory lies is between a kernel and its text, which are stored together.
            assert replace(one, shared_static=0, shared_dynamic=0) == replace(two, shared_static=0, shared_dynamic=0)


# ---------------------------------------------------------------- machine code
def test_the_fields_of_a_key_of_machine_code() -> None:
    p, facts = program(), device()
    ptx, cubin = ptx_keys(OPTIONS).key(p), cubin_keys(OPTIONS, facts, TOOL).key(p)
    assert cubin.kind is ArtifactKind.CUBIN
    assert cubin.device == (("sm", str(facts.target)),)
    assert cubin.driver == str(facts.driver_version)
    assert cubin.tool == "ptxas 13.0.88 -O3"
    assert ptx.differences(cubin) == ("kind", "device", "driver", "tool")


@pytest.mark.parametrize(
    ("facts", "tool", "field"),
    [
        (device(target=120), TOOL, "device"),
        (device(driver_version=12_080), TOOL, "driver"),
        (device(), "ptxas 12.9.41 -O3", "tool"),
        (device(), Ptxas(Assembler(Path("ptxas"), (13, 0), "13.0.88")).named(JitOptions(1)), "tool"),
    ],
)
def test_device_driver_and_tool_are_in_the_key_of_machine_code(facts: CudaDeviceFacts, tool: str, field: str) -> None:
    p = program()
    one, other = cubin_keys(OPTIONS, device(), TOOL).key(p), cubin_keys(OPTIONS, facts, tool).key(p)
    assert one.differences(other) == (field,)


def test_two_devices_of_one_kind_share_machine_code() -> None:
    p, twin = program(), device(uuid=b"another device!!", ordinal=3, total_memory=1 << 30, name="a twin")
    assert cubin_keys(OPTIONS, device(), TOOL).key(p) == cubin_keys(OPTIONS, twin, TOOL).key(p)


# ---------------------------------------------------------------- how often it is computed
def test_the_key_for_the_same_objects_is_the_same_object() -> None:
    keys, p = ptx_keys(OPTIONS), program()
    spec, equal = (complete_spec(p, {"scale": 3.0}) for _ in range(2))
    key = keys.key(p, spec)
    assert keys.key(p, spec) is key
    assert ptx_keys(OPTIONS).key(p, spec) is key  # whoever made the maker
    assert ptx_keys(replace(OPTIONS, target=120)).key(p, spec) != key
    assert keys.key(p, equal) == key


def test_what_a_program_keeps_is_never_the_key_for_other_values() -> None:
    p = program()
    makers = {target: ptx_keys(replace(OPTIONS, target=target)) for target in (75, 90)}
    specs = [complete_spec(p, {"scale": float(scale)}) for scale in range(3)]
    source = random.Random(3)
    for _ in range(200):
        target, spec, size = source.choice((75, 90)), source.choice(specs), source.choice((None, (64, 1, 1)))
        key = makers[target].key(p, spec, size)
        assert key.target == f"sm_{target}"
        assert key.spec == spec.canonical_bytes()
        assert key.workgroup == (size or (32, 1, 1))


def test_another_source_of_the_emitter_makes_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    p = program()
    key = ptx_keys(OPTIONS).key(p)
    monkeypatch.setattr(artifact_keys, "emitter_digest", lambda: b"\1" * 32)
    assert ptx_keys(OPTIONS).key(p).differences(key) == ("emitter",)


def test_keys_do_not_depend_on_the_process() -> None:
    code = (
        "from vyre.adapters.cuda.ptx.kernel import Assumption\n"
        "from vyre.adapters.cuda.ptx.options import EmitOptions\n"
        "from vyre.adapters.cuda.runtime.artifact_keys import ptx_keys\n"
        "from vyre.domain.specialization import complete_spec\n"
        "from vyre.gallery.registry import examples\n"
        "keys = ptx_keys(EmitOptions(assume=frozenset(Assumption)))\n"
        "for example in examples().values():\n"
        "    program = example.program()\n"
        "    key = keys.key(program, complete_spec(program, None))\n"
        "    print(key.program.hex(), key.interface, key.spec.hex(), key.policy)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            timeout=LIMIT_S,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) == 1
    assert "aligned16,exact-grid,noalias" in next(iter(outputs))


def test_a_key_needs_no_assembler_and_no_driver() -> None:
    code = (
        "import sys\n"
        "import vyre.adapters.cuda.runtime.artifact_keys\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('cuda', 'numpy', 'subprocess', 'hashlib')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.strip() == "[]"


def test_u32_constants_are_told_from_f32_ones() -> None:
    with ProgramBuilder("p", workgroup=32) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = p.spec("n", 1)
    built = p.build()
    assert complete_spec(built, None) == SpecMap({"n": 1}) != SpecMap({"n": 1.0})
