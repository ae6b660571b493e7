"""Operations with native text: what is checked, what is refused, and that no byte depends on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import vyre
from support.registry import registered
from vyre import (
    Dialect,
    InvalidDialect,
    InvalidProgram,
    Lowering,
    MalformedJson,
    MalformedText,
    MalformedWire,
    Operation,
    Program,
    u32,
)
from vyre.app.cli import main
from vyre.app.device_passes.passes import DevicePasses
from vyre.app.dialects.current import dialect_registry
from vyre.app.dialects.lowered import LoweringChoice
from vyre.domain.dialects.expansion import expanded
from vyre.domain.dialects.manifests import BAD_NATIVE, read_manifest
from vyre.domain.dialects.native_text import MAX_LINES
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.expr import Binary, BufferLength, Call, Expr, LaunchId, Literal
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.text_parser import parse_definition
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.domain.optimize.passes import run_passes
from vyre.domain.specialization import SpecMap, spec_constants
from vyre.domain.validation.validator import check_rules
from vyre.testing.execution import execute, open_backend
from vyre.testing.random_programs.generator import generate

DISTANCE = parse_definition(
    """define acme.distance version 1.0.0 (a: u32, b: u32, c: u32) -> u32 {
      let less = a
      let more = b
      if b < a {
        less := b
        more := a
      }
      result more - less + c
    }""",
    "a test",
)
SUM = parse_definition("define acme.sum version 1.0.0 (x: u32, y: u32) -> u32 { result x + y }", "a test")
BYTE = parse_definition(
    "define acme.byte version 1.0.0 (x: u32, at: u32 const) -> u32 { result (x >> at) & 255u }", "a test"
)
LOGIC = parse_definition("define acme.logic version 1.0.0 (x: bool) -> bool { result x }", "a test")
CALL = Program.from_text(
    "workgroup_size 64, 1, 1 buffer x @0 read u32[runtime] buffer y @1 read_write u32[runtime] like x output "
    "body { if gid.x < len(x) { y[gid.x] = acme.distance(x[gid.x], gid.x * 7919u, acme.byte(x[gid.x], 8u)) } }"
)


def native(definition: Definition, **texts: str) -> Operation:
    """The operation with a text for the backends that take each language."""
    backends = {"ptx": "cuda-machine", "llvm": "cpu"}
    found = {backends[each]: Lowering.native(definition, each, text) for each, text in texts.items()}
    return Operation.of(definition, lowerings=found)


OPERATIONS = (
    native(
        DISTANCE,
        ptx="sad.u32 {out}, {0}, {1}, {2};",
        llvm="""
            {more:u32} = call {u32} @llvm.umax({u32} {0}, {u32} {1})
            {less:bool} = icmp ult {u32} {0}, {1}
            {least:u32} = select {bool} {less:bool}, {u32} {0}, {u32} {1}
            {a:u32} = sub {u32} {more:u32}, {least:u32}
            {out} = add {u32} {a:u32}, {2}""",
    ),
    native(
        BYTE,
        ptx="and.b32 {by:u32}, 31, {#1};\nshr.u32 {a:u32}, {0}, {by:u32};\nand.b32 {out}, {a:u32}, 255;",
        llvm="{a:u32} = call {u32} @llvm.fshr({u32} {u32 0}, {u32} {0}, {u32} {1})\n"
        "{out} = and {u32} {a:u32}, {u32 255}",
    ),
)
SUMMING = native(
    SUM,
    ptx="add.u32 {out}, {0}, {1};",
    llvm="{a:u32} = sub {u32} {u32 0}, {1}\n{out} = sub {u32} {0}, {a:u32}",
)


@pytest.fixture(scope="module", autouse=True)
def verified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The operations are registered, and their texts have passed their checks."""
    with pytest.MonkeyPatch.context() as patch, registered(Dialect("acme", DISTANCE.version, OPERATIONS)):
        patch.setenv("VYRE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        assert main(["dialects", "verify", "acme"]) == 0
        yield


@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_native_text_that_passed_is_used_and_gives_the_bytes_of_the_definition(backend: str) -> None:
    given = {"x": np.random.default_rng(5).integers(0, 1 << 32, 1000, np.uint32)}
    with vyre.open("reference") as session:
        wanted = session.dispatch(CALL, given)["y"]
        assert session.explain(CALL).lowerings == ()
    with vyre.open(backend) as session:
        used: tuple[LoweringChoice, ...] = session.explain(CALL).lowerings
        assert {choice.operation: choice.is_used for choice in used} == {"acme.byte": True, "acme.distance": True}
        assert np.array_equal(session.dispatch(CALL, given)["y"], wanted)
        key = session.compile(CALL).program
        assert "native<u32, " in key.to_text()
        assert key.digest != expanded(dialect_registry().snapshot.resolved(CALL)).digest
        for read in (Program.from_text, Program.from_wire, Program.from_json):
            forms = {"from_text": key.to_text(), "from_wire": key.to_wire(), "from_json": key.to_json()}
            with pytest.raises((MalformedText, MalformedWire, MalformedJson)):
                read(forms[read.__name__])  # type: ignore[arg-type]
        with pytest.raises(InvalidProgram, match="native text stands in a program that is given"):
            session.dispatch(key, given)
        assert "native" not in session.compile(CALL, vyre.DispatchConfig(optimize=False)).program.to_text()


def test_other_text_is_other_code() -> None:
    one, other = (
        Lowering.native(SUM, "ptx", f"add.{kind} {{out}}, {{0}}, {{1}};").definitions[-1] for kind in ("u32", "s32")
    )
    assert one.digest != other.digest


def test_passes_of_a_device_leave_native_text_to_the_host() -> None:
    texts = [
        Lowering.native(SUM, "ptx", f"{each}.b32 {{out}}, {{0}}, {{1}};").definitions[-1] for each in ("and", "or")
    ]
    one, other = (replace(each, id=f"acme.{number}{SUM.id[5:]}") for number, each in zip("ab", texts, strict=True))
    body = "{ let a = acme.asum(y[0u], 3u) let b = acme.bsum(y[0u], 3u) y[gid.x] = a * b }"
    called = Program.from_text(f"workgroup_size 4, 1, 1 buffer y @0 read_write u32[4] body {body}")
    program = expanded(replace(called, definitions=(one, other)))
    passes = DevicePasses()()  # bound to no device
    assert passes["numbering"].run(program, Counter()).to_text().count("native<u32, ") == 2


def with_sums(program: Program, lowered: Definition) -> Program:
    """The program with ``lowered`` in place of sums that are u32 at a glance."""

    def change(node: object) -> object:
        if isinstance(node, Binary) and node.op is BinaryOp.ADD and (_is_word(node.left) or _is_word(node.right)):
            return Call(SUM.id, (node.left, node.right))
        return node

    return replace(program, body=rebuilt(program.body, change), definitions=(lowered,))


def _is_word(expr: Expr) -> bool:
    return isinstance(expr, LaunchId | BufferLength) or (isinstance(expr, Literal) and expr.dtype is u32)


def test_random_programs_give_the_same_bytes_with_native_text() -> None:
    """As they are and optimized; the definition computes the same, too."""
    backends = {name: open_backend(name) for name in ("cpu", "cuda-machine")}
    reference = open_backend("reference")
    passes = [PASSES[name] for name in DEFAULT_ORDER]
    found = 0
    for seed in range(16):
        case = generate(seed, work=4_000)
        config = replace(case.config, step_budget=None)
        called = with_sums(case.program, SUM)
        if called.body == case.program.body:
            continue
        found += 1
        wanted = execute(reference, case.program, case.inputs, config)
        assert execute(reference, expanded(called), case.inputs, config) == wanted
        for name, backend in backends.items():
            lowered = expanded(with_sums(case.program, SUMMING.lowerings[name].definitions[-1]))
            check_rules(lowered).raise_if_invalid()
            for program in (lowered, run_passes(lowered, passes).program) if found % 2 else (lowered,):
                assert "native<u32, " in program.to_text() or program is not lowered
                left = [each for each in (case.config.spec or {}).items() if each[0] in spec_constants(program)]
                given = replace(config, spec=SpecMap(left))
                assert execute(backend, program, case.inputs, given) == wanted, (seed, name)
    assert found >= 5


@pytest.mark.parametrize(
    ("language", "text", "message", "fix"),
    [
        ("spirv", "", "the 'spirv' text of `acme.byte`: it has another language", "ptx, llvm, opencl"),
        ("ptx", "", "nothing gives {out} a value", "end with"),
        ("ptx", "\n  ld.global.u32 {out}, [{0}];", "line 2 of .* no instruction that native text may have", "memory"),
        ("ptx", ".reg .u32 %a;\nmov.u32 {out}, {0};", "line 1 of .* no instruction", "no directive"),
        ("ptx", "again: mov.u32 {out}, {0};", "line 1 of .* no instruction", "label"),
        ("ptx", "@%p1 mov.u32 {out}, {0};", "no instruction", "guard"),
        ("ptx", "bra $L1;", "no instruction", "jump"),
        ("ptx", "mov.u32 {out}, %tid.x;", "no instruction", "special register"),
        ("ptx", "mov.u32 {out}, {0}; trap;", "no instruction", "no directive"),
        ("ptx", "add.cc.u32 {out}, {0}, {0};", "no instruction", "no directive"),
        ("ptx", "lop3.b32 {out}, {0}, {0}, {0}, 0x80;", "no instruction", "no directive"),
        ("ptx", "mov.u32 {out}, \x01;", "no instruction", "no directive"),
        ("ptx", "add.u32 {out}, {0}, {result};", "no instruction", "no directive"),
        ("ptx", "add.u32 {out}, {0}, {2};", "there is no operand 2", "it has 2, counted from 0"),
        ("ptx", "add.u32 {out}, {0}, {#0};", "operand 0 is no attribute", "make its parameter an attribute"),
        ("ptx", "add.u32 {0}, {0}, {0};", "operand 0 is assigned", "{out}"),
        ("ptx", "add.u32 {out}, {a:u32}, {0};", "{a} is read before it has a value", "makes it first"),
        (
            "ptx",
            "mov.u32 {out}, {0};\n" * (MAX_LINES + 1),
            "another language, operands or size",
            f"at most {MAX_LINES} lines",
        ),
        ("llvm", "{out} = load {u32}, ptr {0}", "no instruction", "memory"),
        ("llvm", "{out} = call {u32} @llvm.trap()", "no instruction", "no directive"),
        ("llvm", "{out} = udiv {u32} {0}, {1}", "no instruction", "no directive"),
        ("llvm", "{out} = add nuw {u32} {0}, {1}", "no instruction", "no directive"),
        ("llvm", "{out} = shl {u32} {0}, {u32 32}", "a shift by the width", "shift by less"),
        ("llvm", "{out} = add {u32} {0}, {u32 4294967296}", "4294967296 is no u32", "an integer"),
        ("llvm", "{out} = shl {u32} {0}, {#1}", "no instruction", "no directive"),
        ("opencl", "{out} = *(&{0});", "no instruction", "memory"),
        ("opencl", "{out} = ({u32})&{0};", "no instruction", "memory"),
        ("opencl", "{out} = {0}++;", "no instruction", "no directive"),
        ("opencl", "{out} = get_global_id(0);", "no instruction", "no directive"),
        ("opencl", "{out} = " + "1" * 140 + "$;", "no instruction", "no directive"),
    ],
)
def test_text_that_is_more_than_instructions_is_refused(language: str, text: str, message: str, fix: str) -> None:
    with pytest.raises(InvalidDialect, match=message.replace("{", r"\{")) as caught:
        Lowering.native(BYTE, language, text)
    assert fix in caught.value.fix


def test_operands_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InvalidDialect, match="another language, operands or size"):
        Lowering.native(LOGIC, "ptx", "mov.pred {out}, {0};")


def test_text_that_differs_is_refused_with_the_operands(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = replace(BYTE, id="wrong.byte")
    with registered(Dialect("wrong", DISTANCE.version, (native(wrong, ptx="bfe.u32 {out}, {0}, {1}, 8;"),))):
        assert main(["dialects", "verify", "wrong"]) == 1
        assert "refused: 0x" in capsys.readouterr().out  # a shift by 32 or more
        with vyre.open("cuda-machine") as session:
            program = Program.from_text(
                "workgroup_size 4, 1, 1 buffer y @0 read_write u32[4] body { y[gid.x] = wrong.byte(y[gid.x], 0u) }"
            )
            (choice,) = session.explain(program).lowerings
            assert not choice.is_used and "refused" in choice.why
            assert session.dispatch(program, {"y": np.full(4, 255, np.uint32)})["y"].tolist() == [255] * 4


def test_text_that_the_target_does_not_take_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    other = replace(SUM, id="wrong.sum")
    with registered(Dialect("wrong", DISTANCE.version, (native(other, ptx="add.b32 {out}, {0}, {1};"),))):
        assert main(["dialects", "verify", "wrong"]) == 0
        assert "on cuda-machine: not checked:" in capsys.readouterr().out
    listed = Operation.of(other, lowerings={"reference": Lowering.native(other, "ptx", "add.u32 {out}, {0}, {1};")})
    with registered(Dialect("wrong", DISTANCE.version, (listed,))):
        assert main(["dialects", "verify", "wrong"]) == 0
        assert "does not support `operation vyre.native_ptx`" in capsys.readouterr().out


MANIFEST = """dialect = "acme"
version = "1.2.0"
[[ops]]
id = "acme.byte"
category = "A"
inputs = [["x", "u32"], ["at", "u32", "const"]]
outputs = [["y", "u32"]]
body = "result (x >> at) & 255u"
[[ops.native]]
backends = ["cuda", "cuda-machine"]
language = "ptx"
text = "{}"
"""


def test_a_manifest_states_native_text() -> None:
    text = "bfe.u32 {out}, {0}, {#1}, 8;"
    manifest, notes = read_manifest(MANIFEST.format(text).encode(), "acme.toml")
    assert manifest is not None and not notes
    (operation,) = manifest.dialect.operations
    assert operation.definition is not None
    assert operation.lowerings == dict.fromkeys(
        ("cuda", "cuda-machine"), Lowering.native(operation.definition, "ptx", text)
    )


def test_a_manifest_with_bad_native_text_is_left_out() -> None:
    manifest, notes = read_manifest(MANIFEST.format("trap;").encode(), "acme.toml")
    assert manifest is None and notes[0].code == BAD_NATIVE and "line 1" in notes[0].message
