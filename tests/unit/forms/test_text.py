"""The text form: what it looks like, what may be written, and where errors are reported."""

from __future__ import annotations

import random
import re
import struct
from fractions import Fraction
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from support.fuzzing.form_corpus import CORPUS, lit, program, storage, store
from support.profiles import SOAK
from vyre.domain.errors import MalformedText
from vyre.domain.ir.expr import Binary, Expr, IdKind, LaunchId, Literal, Load, Unary, Var
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import If, Let, Store
from vyre.domain.ir.text import parse_program, print_program
from vyre.domain.ir.text_format import (
    ATOMIC_FUNCTION,
    BINARY_FUNCTION,
    ID_WORD,
    LEVEL,
    RESERVED_WORDS,
    UNARY_FUNCTION,
    float_bits,
    literal_text,
)
from vyre.domain.ir.text_lexer import tokenize
from vyre.domain.ir.types import ScalarType, f32, f64
from vyre.domain.program_report import InvalidProgram
from vyre.domain.source_location import SourceLocation

SAXPY: Final = dedent(
    """\
    program saxpy
    workgroup_size 256, 1, 1
    param a @0 f32
    buffer x @1 read f32[1000]
    buffer y @2 read_write f32[runtime]
    buffer partial @3 read_write u32[0x8] output range 0..16
    buffer s @- workgroup u32[128]
    body {
      let i = gid.x
      if i < len(y) and not(i == 3u) {
        y[i] = fma(a, x[i], y[i])
      } else if i == 0u {
        s[lid.x] = (i ^ 0x811c9dc5u) * 3u + 1u
      } else {
        for k in 0u .. 4u step 2u {
          partial[k] = atomic_add.relaxed(partial, k, 1u)
        }
      }
    }
    """
)


def test_the_printed_form() -> None:
    assert print_program(parse_program(SAXPY)) == SAXPY.replace("0x8]", "8]")


def test_comments_and_layout_do_not_matter() -> None:
    spread = "; a comment\n" + SAXPY.replace("{\n", "{ ; body\r\n\n\t").replace(" + ", "\n+ ; sum\n")
    assert parse_program(spread) == parse_program(SAXPY)


def expression(text: str, head: str = "") -> Expr:
    parsed = parse_program(f"workgroup_size 1, 1, 1\nbuffer y @0 read_write u32[1]\n{head}\nbody {{ y[0u] = {text} }}")
    statement = parsed.body[0]
    assert isinstance(statement, Store)
    return statement.value


A, B, C = Var("a"), Var("b"), Var("c")


def binary(op: BinaryOp, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a - b - c", binary(BinaryOp.SUB, binary(BinaryOp.SUB, A, B), C)),
        ("a - (b - c)", binary(BinaryOp.SUB, A, binary(BinaryOp.SUB, B, C))),
        ("a + b * c", binary(BinaryOp.ADD, A, binary(BinaryOp.MUL, B, C))),
        ("(((a)))", A),
        ("a or b and c", binary(BinaryOp.OR, A, binary(BinaryOp.AND, B, C))),
        ("a & b == c", binary(BinaryOp.EQ, binary(BinaryOp.BIT_AND, A, B), C)),
        ("a | b ^ c", binary(BinaryOp.BIT_OR, A, binary(BinaryOp.BIT_XOR, B, C))),
        ("a ^ b & c", binary(BinaryOp.BIT_XOR, A, binary(BinaryOp.BIT_AND, B, C))),
        ("a & b << c", binary(BinaryOp.BIT_AND, A, binary(BinaryOp.SHL, B, C))),
        ("a << b + c", binary(BinaryOp.SHL, A, binary(BinaryOp.ADD, B, C))),
        ("a < b and b < c", binary(BinaryOp.AND, binary(BinaryOp.LT, A, B), binary(BinaryOp.LT, B, C))),
        ("a -3i", binary(BinaryOp.SUB, A, Literal.of(ScalarType.I32, 3))),
        ("a - -3i", binary(BinaryOp.SUB, A, Literal.of(ScalarType.I32, -3))),
        ("neg(a)", Unary(UnaryOp.NEGATE, A)),
        ('"a"', A),
        ("min(a, b)", binary(BinaryOp.MIN, A, B)),
        ("gid", Var("gid")),
        ("gid.y", LaunchId(IdKind.GLOBAL, 1)),
        ("0XFFu", lit(255)),
        ("p", Load("p", lit(0))),
        ("p[0u]", Load("p", lit(0))),
        ("local(p)", Var("p")),
    ],
)
def test_expressions(text: str, tree: Expr) -> None:
    assert expression(text, "param p @1 u32") == tree


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (binary(BinaryOp.SUB, A, binary(BinaryOp.SUB, B, C)), "a - (b - c)"),
        (binary(BinaryOp.SUB, binary(BinaryOp.SUB, A, B), C), "a - b - c"),
        (binary(BinaryOp.BIT_AND, binary(BinaryOp.SHR, A, B), C), "(a >> b) & c"),
        (binary(BinaryOp.EQ, binary(BinaryOp.BIT_AND, A, B), C), "(a & b) == c"),
        (binary(BinaryOp.LT, binary(BinaryOp.ADD, A, B), C), "a + b < c"),
        (binary(BinaryOp.EQ, binary(BinaryOp.LT, A, B), C), "(a < b) == c"),
        (binary(BinaryOp.AND, binary(BinaryOp.OR, A, B), C), "(a or b) and c"),
    ],
)
def test_parentheses_are_printed_where_a_reader_needs_them(tree: Expr, text: str) -> None:
    assert f"= {text}\n" in print_program(program(store(tree)))


def test_a_local_hides_a_parameter_of_its_name() -> None:
    text = "workgroup_size 1, 1, 1\nparam p @0 u32\nbody { let p = p if true { let q = p } let r = p[0u] }"
    first, second, third = parse_program(text).body
    assert first == Let("p", Load("p", lit(0)))
    assert isinstance(second, If) and second.then == (Let("q", Var("p")),)
    assert third == Let("r", Load("p", lit(0)))


# Literals.


@pytest.mark.parametrize(
    ("dtype", "bits", "text"),
    [
        (ScalarType.U32, 5, "5u"),
        (ScalarType.U32, 0x1_0000, "0x10000u"),
        (ScalarType.I32, 0xFFFF_FFFD, "-3i"),
        (ScalarType.I32, 0x8000_0000, "-2147483648i"),
        (ScalarType.U64, (1 << 64) - 1, "0xffffffffffffffffu64"),
        (ScalarType.I64, (1 << 64) - 7, "-7i64"),
        (ScalarType.BOOL, 1, "true"),
        (f32, 0x3FC0_0000, "1.5f"),
        (f32, 0x3DCC_CCCD, "0.1f"),
        (f32, 0x8000_0000, "-0.0f"),
        (f32, 1, "1e-45f"),
        (f32, 0x7FC0_0001, "f32(0x7fc00001)"),
        (f32, 0xFF80_0000, "f32(0xff800000)"),
        (f64, 0x3FF8_0000_0000_0000, "1.5f64"),
        (f64, 0x7FF8_0000_0000_0000, "f64(0x7ff8000000000000)"),
    ],
)
def test_literals(dtype: ScalarType, bits: int, text: str) -> None:
    assert literal_text(dtype, bits) == text
    assert expression(text) == Literal(dtype, bits)


def nearest_f32(value: Fraction) -> int:
    """Bits of the f32 nearest to a positive value, ties to even, by comparing exact neighbours."""

    def exact(bits: int) -> Fraction:
        number: float = struct.unpack("<f", struct.pack("<I", bits))[0]
        return Fraction(number)

    low, high = 0, 0x7F7F_FFFF
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exact(middle) <= value else (low, middle)
    below, above = value - exact(low), exact(high) - value
    return low if below < above or (below == above and low % 2 == 0) else high


def test_decimals_round_once() -> None:
    source = random.Random(7)
    ties = [Fraction(2 * source.getrandbits(24) + 1, 2 ** source.randrange(1, 160)) for _ in range(150)]
    for tie in ties:
        for offset in (Fraction(0), tie / 10**25, -tie / 10**25, tie / 10**16):
            number = tie + offset
            shift = 60
            text = f"{int(number * 10**shift) if offset else number * 10**shift}".split("/")[0] + f"e-{shift}"
            if float(text) < 1e-44:
                continue
            assert float_bits(f32, text) == nearest_f32(Fraction(text)), text


def test_shortest_decimals_read_back() -> None:
    source = random.Random(11)
    for _ in range(2000):
        for dtype, width in ((f32, 32), (f64, 64)):
            value = Literal(dtype, source.getrandbits(width))
            text = literal_text(dtype, value.bits)
            assert expression(text) == value
            assert len(text) <= (18 if width == 32 else 28)


# Locations and errors.


def test_nodes_know_where_they_were_written() -> None:
    parsed = parse_program(SAXPY, "saxpy.vyre")
    condition = parsed.body[1]
    assert isinstance(condition, If)
    assert condition.loc == SourceLocation("saxpy.vyre", 10, 3)
    both = condition.condition
    assert isinstance(both, Binary)
    assert both.loc == SourceLocation("saxpy.vyre", 10, 17)
    assert both.left.loc == SourceLocation("saxpy.vyre", 10, 8)
    assert parsed.buffer("x").loc == SourceLocation("saxpy.vyre", 4, 1)


BAD_BODIES: Final = {
    "y[0u] = 5": ("number 5 has no type", 9),
    "y[0u] = 4294967296u": ("4294967296u does not fit u32", 9),
    "y[0u] = -1u": ("-1u does not fit u32", 10),
    "y[0u] = 1.5u": ("1.5u is no number of type u32", 9),
    "y[0u] = 0x1pu": ("a number is malformed", 9),
    "y[0u] = 5x": ("a number is malformed", 9),
    "y[0u] = -a": ("expected a number, found `a`", 10),
    "y[0u] = 1u +": ("expected an expression, found `}`", 14),
    "y[0u] = (1u": ("expected an operator or `)`, found `}`", 13),
    "y[0u] = 1u)": ("expected a statement or `}`, found `)`", 11),
    "y[0u = 1u": ("expected `]`, found `=`", 6),
    "y[0u] = a < b < c": ("comparisons do not chain", 15),
    "y[0u] = min(1u)": ("2 arguments are expected here, found 1", 9),
    "y[0u] = min(1u, 2u, 3u)": ("2 arguments are expected here, found 3", 9),
    "y[0u] = nope(1u)": ("unknown function `nope`", 9),
    "y[0u] = (1u, 2u)": ("expected an operator or `)`, found `,`", 12),
    "y[0u] = gid.w": ("expected an axis", 13),
    "y[0u] = foo.x": ("expected a launch id or an atomic", 9),
    "y[0u] = cast<vec>(1u)": ("expected a scalar type", 14),
    "y[0u] = cast<u32> 1u": ("expected `(`", 19),
    "y[0u] = spec(T, x)": ("expected a literal", 17),
    "y[0u] = f32(0x1ffffffff)": ("a bit pattern is 0x1ffffffff", 13),
    "y[0u] = atomic_add(1u, 2u)": ("expected a buffer", 20),
    "y[0u] = atomic_add.fast(y, 0u, 1u)": ("expected a memory ordering", 20),
    "y = 1u": ("expected `:=` or `[`", 3),
    "let = 1u": ("expected the name of a local", 5),
    "let if = 1u": ("expected the name of a local, found `if`", 5),
    "barrier(soon)": ("expected a memory ordering", 9),
    "trap(1u, tag)": ("expected the tag of the trap in quotes", 10),
    "for k in 0u 4u {}": ("expected `..`", 13),
    "else {}": ("expected a statement or `}`, found `else`", 1),
    'let a = "\\q"': ("unknown escape", 9),
    'let a = "open': ("a string does not end on its line", 9),
    "let a = 1u $": ("unexpected character '$'", 12),
    "}": ("expected the end of the text, found `}`", 3),
}


@pytest.mark.parametrize("body", BAD_BODIES)
def test_errors_say_what_and_where(body: str) -> None:
    message, column = BAD_BODIES[body]
    with pytest.raises(MalformedText) as caught:
        parse_program(f"workgroup_size 1, 1, 1\nbuffer y @0 read_write u32[1]\nbody {{\n{body} }}", "k.vyre")
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"k.vyre:4:{column}: ")
    assert "Fix: " in str(caught.value)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("", "expected `workgroup_size`, found the end"),
        ("workgroup_size 1, 1", "expected `,`"),
        ("workgroup_size 1, 1, 4294967296 body {}", "an axis of the workgroup size is 4294967296"),
        ("workgroup_size 1u, 1, 1 body {}", "expected an axis"),
        ("workgroup_size 1, 1, 1 buffer x 0 read u32[1] body {}", "expected `@`"),
        (
            "workgroup_size 1, 1, 1 buffer x @0 rw u32[1] body {}",
            "expected an access, found `rw`. Fix: use one of: read",
        ),
        ("workgroup_size 1, 1, 1 buffer x @0 read u31[1] body {}", "expected an element type"),
        ("workgroup_size 1, 1, 1 buffer x @0 read u32[-1] body {}", "expected a count"),
        ("workgroup_size 1, 1, 1 buffer x @0 read u32[1] output output body {}", "`output` is given twice"),
        ("workgroup_size 1, 1, 1 buffer x @0 read u32[1] kind heap body {}", "expected a memory kind"),
        ("workgroup_size 1, 1, 1 buffer x @0 read u32[1] like body {}", "expected `body`"),
        ("workgroup_size 1, 1, 1 body {", "expected a statement or `}`, found the end of the text"),
        ("workgroup_size 1, 1, 1 body {} body", "expected the end of the text"),
        ("program workgroup_size 1, 1, 1 body {}", "expected `workgroup_size`"),
    ],
)
def test_errors_in_the_head(head: str, message: str) -> None:
    with pytest.raises(MalformedText) as caught:
        parse_program(head)
    assert message in str(caught.value)


def parse_or_refuse(text: str) -> bool:
    try:
        parsed = parse_program(text)
    except MalformedText as error:
        assert error.loc is not None and error.loc.line >= 1 and error.loc.column is not None
        assert "Fix: " in str(error)
        return False
    try:
        assert parse_program(print_program(parsed)) == parsed
    except InvalidProgram:
        return False
    return True


@pytest.mark.parametrize(
    "name", ["saxpy", *(name for name in CORPUS if name not in ("literals", "operators", "empty"))]
)
def test_every_token_deleted_doubled_or_replaced(name: str) -> None:
    text = SAXPY if name == "saxpy" else print_program(CORPUS[name])
    lines = text.split("\n")
    tokens = tokenize(text, "t")
    texts = [tokens.text(position) for position in range(len(tokens) - 1)]
    spans = [(text, tokens.loc(position).line, tokens.loc(position).column or 0) for position, text in enumerate(texts)]
    source = random.Random(name)
    words = sorted(set(texts) | {"(", ")", "{", "}", "[", "]", ",", "5u", "-", '"', "let", "x", "<", "else"})
    outcomes = set()
    most = 400 if SOAK else 80
    for token, line, column in spans if len(spans) < most else source.sample(spans, most):
        row = lines[line - 1]
        before, after = row[: column - 1], row[column - 1 + len(token) :]
        for new in ("", f"{token} {token}", source.choice(words)):
            outcomes.add(parse_or_refuse("\n".join((*lines[: line - 1], before + new + after, *lines[line:]))))
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "-" * 10_000,
        "1u + " * 100_000,
        "min(" * 50_000,
        "spec(a, " * 50_000,
        "y[" * 50_000,
        "1u - (" * 5_000 + "1u" + ")" * 5_000,
        "9" * 5_000 + "u",
        "1e-999999999f",
        "0." + "0" * 5000 + "1f",
        "\\u{110000}",
    ],
    ids=lambda text: text[:12],
)
def test_hostile_expressions(text: str) -> None:
    assert not parse_or_refuse(f"workgroup_size 1, 1, 1 body {{ let a = {text} }}") or text.startswith("1e-")


def test_redundant_parentheses_do_not_count_as_depth() -> None:
    assert expression("(" * 5_000 + "1u" + ")" * 5_000) == lit(1)


@pytest.mark.parametrize(
    "body",
    ["if true {" * 70 + "return" + "}" * 70, "if true { } else { " * 70 + "return" + "}" * 70, "block {" * 100_000],
)
def test_statements_nested_too_deep(body: str) -> None:
    with pytest.raises(MalformedText, match="more than 64 deep"):
        parse_program(f"workgroup_size 1, 1, 1 body {{ {body} }}")


def test_random_characters() -> None:
    source = random.Random(3)
    alphabet = 'ab0 \n\t(){}[]<>=+-*/%&|^,.:;@"\\xu_\x00\u00e9'
    for _ in range(300):
        parse_or_refuse("workgroup_size 1, 1, 1 body {" + "".join(source.choices(alphabet, k=source.randrange(60))))


def test_params_keep_what_a_short_line_cannot_say() -> None:
    text = "workgroup_size 1, 1, 1\nparam a @0 f32\nbuffer b @1 uniform f32[2] kind push\nbody {\n}\n"
    assert print_program(Program.from_text(text)) == text
    assert storage("x", 0) != parse_program(text).buffer("a")


DOCUMENT: Final = (Path(__file__).parents[3] / "docs" / "text-format.md").read_text(encoding="utf-8")


def test_the_example_of_the_document() -> None:
    example = DOCUMENT.split("```")[1]
    without_comments = [line.split(";")[0].rstrip() for line in example.strip().split("\n")]
    assert print_program(parse_program(example)).strip().split("\n") == without_comments


def test_the_document_names_every_word() -> None:
    words = {*RESERVED_WORDS, *BINARY_FUNCTION, *UNARY_FUNCTION, *ATOMIC_FUNCTION, *LEVEL, *ID_WORD.values()}
    written = set(re.split(r"[\s`\"(),.]+", DOCUMENT.replace("\\|", "|")))
    assert words <= written
