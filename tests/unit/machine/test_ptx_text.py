"""Loading PTX: what a module tells of itself, and what does not load."""

from __future__ import annotations

import pickle

import pytest

from support.cuda.ptx_runs import HEADER, Machine, kernel, run, zeros
from vyre.adapters.cuda.machine.faults import FaultKind, KernelFault, MemoryFault, PtxError
from vyre.adapters.cuda.machine.module import load_module
from vyre.adapters.cuda.machine.ptx_syntax import parse

FULL = """// a comment
.version 8.3
.target sm_90a, debug
.address_size 64
/* two
   lines */
.extern .shared .align 16 .b8 dyn[];
.global .align 8 .b64 table[3] = {0x10, -1,
    3};
.const .align 4 .b32 small[2] = {7, 8};
.visible .entry first(.param .u64 p0, .param .u32 n0, .param .align 16 .b8 u0[20]) .reqntid 8, 4, 2 .minnctapersm 2
{
    .reg .b32 %r<3>, %named; .reg .pred %p<1>; .reg .f64 %fd<2>;
    .shared .align 16 .b8 s[100];
    .loc 1 2 3
    .pragma "nounroll";
    mov.u32 %named, dyn; $A: { ret; }
}
.entry second() { ret; }
"""


def test_a_module_tells_what_a_driver_asks() -> None:
    module = load_module(FULL)
    assert (module.version, module.target) == ((8, 3), "sm_90a")
    first, second = module.entries["first"], module.entries["second"]
    assert first.parameters == ((0, 8), (8, 4), (16, 20))
    assert (first.parameter_bytes, first.required_block, first.static_shared) == (36, (8, 4, 2), 100)
    assert (first.code.needs.dynamic_offset, second.code.needs.dynamic_offset) == (112, 0)
    assert first.registers == 4 + 2 * 2
    assert (second.parameters, second.parameter_bytes, second.required_block) == ((), 0, None)


def test_loading_the_same_text_again_costs_nothing() -> None:
    assert load_module(FULL) is load_module(FULL)


def test_instructions_keep_their_lines_and_their_text() -> None:
    text = FULL.replace("ret; }\n}", "@!%p0 add.u32\n  %r0, %r1, 0x1F;\n ret; }\n}")
    added, ret = parse(text).entries[0].instructions[1:3]
    assert str(added) == "@!%p0 add.u32 %r0, %r1, 0x1F;"
    assert text.splitlines()[added.line - 1].endswith("add.u32")
    assert ret.line == added.line + 2


def test_variables_of_a_module_lie_in_device_memory() -> None:
    scope = ".global .align 8 .b64 table[3] = {0x10, -1, 3}; .const .align 4 .b32 small[2] = {7, 8};"
    body = """
    mov.u64 %rd1, table; ld.global.nc.b64 %rd2, [%rd1+8]; ld.const.u32 %r4, [small+4]; ld.global.u32 %r5, [table+16];
    ld.param.u64 %rd0, [a]; st.global.u64 [%rd0], %rd2; st.global.u32 [%rd0+8], %r4; st.global.u32 [%rd0+12], %r5;
    """
    assert run(kernel(body, module_scope=scope), zeros(4), block=1).tolist() == [0xFFFFFFFF, 0xFFFFFFFF, 8, 3]
    machine = Machine()
    loaded = load_module(kernel(body, module_scope=scope)).instantiate(machine.memory)
    assert [machine.memory.extent_of(address) for address in loaded.variables] == [
        (address, size) for address, size in zip(loaded.variables, (24, 8), strict=True)
    ]


def test_parameters_can_be_indexed_at_run_time() -> None:
    body = """
    ld.param.u64 %rd0, [a]; mov.b64 %rd1, u0; mad.wide.u32 %rd2, %r3, 4, %rd1; ld.param.b32 %r4, [%rd2];
    mad.wide.u32 %rd3, %r3, 4, %rd0; st.global.u32 [%rd3], %r4;
    """
    machine = Machine()
    out = machine.array(zeros(4))
    text = kernel(body, ".param .u64 a, .param .align 16 .b8 u0[16]")
    machine.launch(text, out, 5, 6, 7, 8, layout="Q8xIIII", block=4)
    assert machine.read(out).tolist() == [5, 6, 7, 8]


def test_local_memory_belongs_to_a_lane() -> None:
    body = """
    .local .align 8 .b8 mine[8]; mov.b64 %rd1, mine; st.local.u32 [%rd1+4], %r3; bar.sync 0; ld.local.u32 %r4, [mine+4];
    ld.param.u64 %rd0, [a]; mad.wide.u32 %rd3, %r3, 4, %rd0; st.global.u32 [%rd3], %r4;
    """
    assert run(kernel(body), zeros(64), grid=2).tolist() == list(range(64))


@pytest.mark.parametrize("name", ["v2", "v4"])
def test_vectors(name: str) -> None:
    count = int(name[1])
    registers = ", ".join(f"%r{n}" for n in range(10, 10 + count))
    body = f"""
    ld.param.u64 %rd0, [a]; mad.wide.u32 %rd1, %r3, {4 * count}, %rd0; ld.global.{name}.u32 {{{registers}}}, [%rd1];
    add.u32 %r10, %r10, 100; st.global.{name}.u32 [%rd1], {{{registers}}};
    """
    data = zeros(32 * count)
    data[:] = range(32 * count)
    expected = [n + 100 * (n % count == 0) for n in range(32 * count)]
    assert run(kernel(body), data).tolist() == expected


REFUSED = {
    "unknown instruction": "frobnicate.u32 %r4, %r5;",
    "unknown instruction ": "add.f32 %f1, %f2, %f3;",
    "unknown instruction  ": "add.rn.ftz.f32 %f1, %f2, %f3;",
    "unknown instruction   ": "ld.u32 %r4, [%rd1];",
    "unknown instruction    ": "cvt.f32.f64 %f1, %fd1;",
    "unknown instruction     ": "ld.acquire.global.u32 %r4, [%rd1];",
    "unknown instruction      ": "red.relaxed.gpu.global.exch.b32 [%rd1], %r4;",
    "%r77 is not declared": "add.u32 %r77, %r5, 1;",
    "%f1 is declared .f32, not .u32": "add.u32 %r4, %f1, 1;",
    "%rd1 is declared .b64, not .u32": "add.u32 %r4, %rd1, 1;",
    "%r4 is declared .b32, not .b64": "mov.b64 %r4, %rd1;",
    "%p1 is declared .pred, not .b32": "mov.b32 %r4, %p1;",
    "%r5 holds no address of global memory": "ld.global.u32 %r4, [%r5];",
    "a lies in param memory, not in shared": "ld.shared.u32 %r4, [a];",
    "nothing is not declared": "ld.shared.u32 %r4, [nothing];",
    "there is no label $NOWHERE": "bra $NOWHERE;",
    "there is no label $GONE": "$T: .branchtargets $E, $GONE; brx.idx %r4, $T;",
    "there is no list of branch targets $E": "brx.idx %r4, $E;",
    "there is no label $U": "$U: .branchtargets $E; bra $U;",
    "label $W is defined twice": "$W: .branchtargets $E; $W: add.u32 %r4, %r5, 1;",
    "%rd1 is declared .b64, not .u32 ": "$T: .branchtargets $E; brx.idx %rd1, $T;",
    "%rd1 is declared .b64, not .b32": "cvt.rn.bf16x2.f32 %rd1, %f1, 0f00000000;",
    "3 operands expected": "add.u32 %r4, %r5;",
    "0x1FFFFFFFFFFFFFFFF does not fit .u32": "add.u32 %r4, %r5, 0x1FFFFFFFFFFFFFFFF;",
    "1.5 is no .u32": "add.u32 %r4, %r5, 1.5;",
    "7 is no .f32": "add.rn.f32 %f1, %f2, 7;",
    "99 is no barrier": "bar.sync 99;",
    "a barrier under a predicate": "@%p1 bar.sync 0;",
    "2 elements expected, not %r4": "ld.global.v2.u32 %r4, [%rd1];",
    "%r4 is declared twice": ".reg .b32 %r4;",
    "label $E is defined twice": "$E: add.u32 %r4, %r4, 1;",
    "misaligned parameter": "ld.param.u32 %r4, [a+2];",
    "past the 8 bytes of parameters": "ld.param.u32 %r4, [a+8];",
    "49153 bytes of shared memory; at most 49152": ".shared .align 1 .b8 s[49153];",
    "malformed statement": "?;",
}


@pytest.mark.parametrize("message", REFUSED)
def test_text_that_does_not_load(message: str) -> None:
    text = kernel("add.u32 %r9, %r9, 1;\n" + REFUSED[message])
    with pytest.raises(PtxError, match=r".") as caught:
        load_module(text)
    assert message.strip() in caught.value.message
    line = text.splitlines()[caught.value.line - 1]
    assert REFUSED[message] in line or message.startswith(("49153", "label")) or ".entry" in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no .version"),
        (".version 7.8\n.target sm_90\n.address_size 32\n", "address size"),
        (HEADER + ".visible .entry k(.param .align 8 .b8 x[4353]) { ret; }", "at most 4352"),
        (HEADER + ".visible .entry k() { ret;", "no end"),
        (HEADER + ".visible .entry k() { ret; } .visible .entry k() { ret; }", "twice"),
        (HEADER + ".visible .func f() { ret; }", "unknown declaration"),
        (HEADER + ".visible .entry k() { }", "no instructions"),
        (HEADER + "garbage", "directive"),
        (HEADER + ".global .b32 x[1] = {1, 2};", "more values"),
    ],
)
def test_modules_that_do_not_load(text: str, message: str) -> None:
    with pytest.raises(PtxError) as caught:
        load_module(text)
    assert message in str(caught.value)


def test_large_parameter_spaces_need_a_newer_version() -> None:
    text = (HEADER + ".visible .entry k(.param .align 8 .b8 x[4353]) { ret; }").replace("7.8", "8.1")
    assert load_module(text).entries["k"].parameter_bytes == 4353


def test_faults_pickle() -> None:
    faults: list[Exception] = [
        PtxError(3, "bad"),
        MemoryFault(FaultKind.USE_AFTER_FREE, 64, 4, (60, 8)),
        KernelFault(FaultKind.RACE, "k", 7, "ret;", (1, 2, 3), 64, "with lane (0, 0, 0)"),
    ]
    for one in faults:
        again = pickle.loads(pickle.dumps(one))
        assert (type(again), str(again), vars(again)) == (type(one), str(one), vars(one))
