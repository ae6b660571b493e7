"""Cases of statements: locals, scopes, branches, loops and early ends of lanes."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.types import ScalarType, i32, i64, u32, u64
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal
from vyre.testing.backend_contract.known import Known, check_known, mapping

FLOW: Final = Group("flow")
_SIX: Final = (0, 1, 2, 3, 4, 5)


@FLOW.table(
    {
        "let": mapping("let a = x[i] + 1u y[i] = a * a", (0, 1, 2), (1, 4, 9)),
        "assignment": mapping("let a = x[i] a := a + a a := a + 1u y[i] = a", (1, 2, 3), (3, 5, 7)),
        "block_scope": mapping("let a = x[i] block { a := a + 10u let b = a y[i] = b }", (1, 2), (11, 12)),
        "two_scopes_of_one_name": mapping(
            "let s = 0u block { let a = x[i] s := s + a } block { let a = x[i] * 10u s := s + a } y[i] = s",
            (1, 2, 3),
            (11, 22, 33),
        ),
        "region": mapping('region "inlined" { y[i] = x[i] + 1u }', (5, 6), (6, 7)),
        "empty_bodies": mapping(
            "if x[i] > 1u {} else {} block {} for k in 0u..3u {} y[i] = x[i]", (0, 1, 2, 3), (0, 1, 2, 3)
        ),
        "an_empty_program": mapping("", (1, 2, 3), (0, 0, 0)),
        "a_local_outlives_the_store_it_was_read_before": Known(
            """workgroup_size 4, 1, 1
            buffer x @0 read_write u32[runtime]
            body { let before = x[gid.x] x[gid.x] = before + 1u x[gid.x] = x[gid.x] * 10u + before }""",
            (words(1, 2, 3),),
            (words(21, 32, 43),),
        ),
    }
)
def locals_and_scopes(bench: Bench, known: Known) -> None:
    """Locals keep their values, and scopes end."""
    check_known(bench, known)


@FLOW.table(
    {
        "uniform": mapping("if num_groups.x == 2u { y[i] = 1u } else { y[i] = 2u }", _SIX, (1,) * 6),
        "divergent": mapping(
            "if x[i] % 2u == 0u { y[i] = 10u + i } else { y[i] = 20u + i }", _SIX, (10, 21, 12, 23, 14, 25)
        ),
        "without_else": mapping("y[i] = 7u if x[i] > 3u { y[i] = 8u }", _SIX, (7, 7, 7, 7, 8, 8)),
        "nested": mapping(
            "if x[i] < 3u { if x[i] == 1u { y[i] = 1u } else { y[i] = 2u } } else { if x[i] < 5u { y[i] = 3u } }",
            _SIX,
            (2, 1, 2, 3, 3, 0),
        ),
        "chained": mapping(
            "if x[i] == 0u { y[i] = 5u } else if x[i] == 1u { y[i] = 6u } else if x[i] == 2u { y[i] = 7u }",
            (0, 1, 2, 3),
            (5, 6, 7, 0),
        ),
        "no_lane": mapping("if x[i] > 100u { y[i] = 1u } else { y[i] = 2u }", _SIX, (2,) * 6),
        "assignments_in_both_branches": mapping(
            "let a = 0u let b = 1u if x[i] < 3u { a := 5u } else { b := a + 9u } y[i] = a * 100u + b",
            _SIX,
            (501, 501, 501, 9, 9, 9),
        ),
        "conditions_are_evaluated_once": mapping(
            "let a = x[i] if a < 3u { a := a + 10u } else { a := a + 20u } y[i] = a", _SIX, (10, 11, 12, 23, 24, 25)
        ),
        "both_sides_of_and_are_evaluated": mapping(
            "y[i] = select(i < 3u and x[i] / i == 1u, 1u, 0u)", (0, 1, 2, 3), (0, 1, 1, 0)
        ),
        "both_sides_of_or_are_evaluated": mapping(
            "y[i] = select(i < 2u or x[i + 0xfffffffeu] == 1u, 1u, 0u)", (0, 1, 2, 3), (1, 1, 0, 1)
        ),
        "not": mapping("y[i] = select(not(x[i] == 2u), 1u, 0u)", (0, 1, 2, 3), (1, 1, 0, 1)),
        "bool_locals": mapping("let b = x[i] < 2u let c = b != (i == 1u) y[i] = cast<u32>(c)", (0, 1, 2), (1, 0, 0)),
    }
)
def branches(bench: Bench, known: Known) -> None:
    """Each lane takes its own branch."""
    check_known(bench, known)


@FLOW.table(
    {
        "count": mapping("for k in 0u..x[i] { y[i] = y[i] + k }", (0, 1, 2, 5), (0, 0, 1, 10)),
        "start_and_step": mapping(
            "for k in 3u..x[i] step 4u { y[i] = y[i] * 100u + k }", (3, 4, 8, 12), (0, 3, 307, 30711)
        ),
        "no_round_where_start_is_past_stop": mapping("for k in 9u..x[i] { y[i] = 1u }", (0, 9, 10), (0, 0, 1)),
        "dynamic_step_of_zero_runs_no_round": mapping(
            "for k in 0u..5u step x[i] { y[i] = y[i] + 1u }", (0, 1, 2, 5), (0, 5, 3, 1)
        ),
        "the_variable_does_not_wrap": mapping(
            "for k in 0xfffffff0u..0xffffffffu step x[i] { y[i] = y[i] + 1u }", (7, 8, 15, 0xFFFF_FFFF), (3, 2, 1, 1)
        ),
        "bounds_are_read_once": mapping("let n = x[i] for k in 0u..n { n := n + 1u y[i] = n }", (0, 1, 3), (0, 2, 6)),
        "nested": mapping(
            "for a in 0u..x[i] { for b in a..x[i] { y[i] = y[i] + a * 10u + b } }", (0, 1, 2, 3), (0, 0, 12, 48)
        ),
        "break": mapping(
            "for k in 0u..100u { if k == x[i] { break } y[i] = y[i] + 1u }", (0, 1, 7, 200), (0, 1, 7, 100)
        ),
        "continue": mapping(
            "for k in 0u..10u { if k % 3u == x[i] { continue } y[i] = y[i] + k }", (0, 1, 2, 3), (27, 33, 30, 45)
        ),
        "break_leaves_the_innermost": mapping(
            "for a in 0u..3u { for b in 0u..10u { if b == x[i] { break } y[i] = y[i] + 1u } }", (0, 1, 4), (0, 3, 12)
        ),
        "continue_of_the_innermost": mapping(
            "for a in 0u..3u { for b in 0u..4u { if b == x[i] { continue } y[i] = y[i] + a } }", (0, 3, 9), (9, 9, 12)
        ),
        "break_and_continue_together": mapping(
            "for k in 0u..20u { if k % 2u == 0u { continue } if k > x[i] { break } y[i] = y[i] * 10u + k }",
            (0, 1, 4, 7),
            (0, 1, 13, 1357),
        ),
        "while": mapping(
            "let n = x[i] for r in 0u..0xffffffffu {"
            " if n <= 1u { break } n := select(n % 2u == 0u, n / 2u, n * 3u + 1u) y[i] = y[i] + 1u }",
            (1, 6, 7, 27),
            (0, 8, 16, 111),
        ),
        "lanes_of_different_length": mapping(
            "for k in 0u..i { y[i] = y[i] + x[k] }", tuple(range(40)), tuple(sum(range(i)) for i in range(40)), lanes=32
        ),
        "a_local_declared_in_a_loop_is_new_in_each_round": mapping(
            "for k in 0u..x[i] { let t = 0u t := t + k y[i] = y[i] + t }", (0, 2, 4), (0, 1, 6)
        ),
        "a_local_carried_around": mapping(
            "let a = 0u let b = 1u for k in 0u..x[i] { let t = a + b a := b b := t } y[i] = a",
            (0, 1, 10, 30),
            (0, 1, 55, 832040),
        ),
        "uniform_around_divergent": mapping(
            "for k in 0u..4u { if x[i] > k { y[i] = y[i] + k + 1u } }", (0, 1, 2, 4), (0, 1, 3, 10)
        ),
        "a_loop_that_stores_what_it_reads": Known(
            """workgroup_size 2, 1, 1
            buffer x @0 read_write u32[2]
            body { for k in 0u..5u { x[gid.x] = x[gid.x] * 2u + k } }""",
            (words(0, 1),),
            (words(26, 58),),
        ),
    }
)
def loops(bench: Bench, known: Known) -> None:
    """A loop counts from start while below stop; bounds are read once, and each lane loops independently."""
    check_known(bench, known)


_LOOP_TYPES: Final[dict[str, ScalarType]] = {dtype.text: dtype for dtype in (u32, i32, u64, i64)}
_ROUNDS: Final = 6


def _bounds(dtype: ScalarType) -> tuple[tuple[int, int, int], ...]:
    """Start, stop and step of loops: ordinary ones, steps of zero, and those that would leave the type."""
    least, greatest = (
        (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if dtype.is_signed else (0, (1 << dtype.bits) - 1)
    )
    rows = [
        (0, 5, 1),
        (2, 9, 3),
        (9, 2, 3),
        (4, 4, 1),
        (0, 5, 0),
        (greatest - 4, greatest, 3),
        (greatest - 1, greatest, greatest),
        (least, greatest, greatest // 2),
        (least, least + 2, 1),
        (greatest, greatest, 1),
    ]
    if dtype.is_signed:
        rows += [
            (5, 0, -1),
            (9, -4, -5),
            (0, 5, -1),
            (-3, 3, 2),
            (5, 1, 0),
            (least + 4, least, -3),
            (greatest, least, least),
            (greatest, least, -greatest),
            (least, greatest, greatest),
            (-1, least, least // 2),
            (least, least, -1),
        ]
    return tuple(rows)


def _rounds(start: int, stop: int, step: int) -> list[int]:
    values: list[int] = []
    while len(values) < _ROUNDS and ((step > 0 and start < stop) or (step < 0 and start > stop)):
        values.append(start)
        start += step
    return values


@FLOW.table(_LOOP_TYPES)
def loops_of_every_integer_type(bench: Bench, dtype: ScalarType) -> None:
    """The variable has the type of the bounds; a negative step counts down, and no value wraps."""
    kernel = f"""
    workgroup_size 8, 1, 1
    buffer from @0 read {dtype.text}[runtime]
    buffer to @1 read {dtype.text}[runtime]
    buffer by @2 read {dtype.text}[runtime]
    buffer y @3 write {dtype.text}[{_ROUNDS * 32}]
    buffer n @4 write u32[32]
    body {{
      let i = gid.x
      let count = 0u
      for k in from[i]..to[i] step by[i] {{
        if count == {_ROUNDS}u {{ break }}
        y[i * {_ROUNDS}u + count] = k
        count := count + 1u
      }}
      n[i] = count
    }}
    """
    rows, size = _bounds(dtype), dtype.size
    mask = (1 << dtype.bits) - 1

    def column(values: list[int]) -> bytes:
        return b"".join((v & mask).to_bytes(size, "little") for v in values)

    taken = [_rounds(*row) for row in rows] + [[]] * (32 - len(rows))
    variables = [v for values in taken for v in (*values, *[0] * (_ROUNDS - len(values)))]
    inputs = [column([row[k] for row in rows]) for k in range(3)]
    found = bench.run(kernel, *inputs, grid=(4, 1, 1))
    equal(found, (column(variables), words(*map(len, taken))))


@FLOW.table(
    {
        "down": mapping("for k in 3i..-3i step -2i { y[i] = y[i] * 10u + cast<u32>(k + 5i) }", (0,), (864,)),
        "down_to_a_loaded_bound": mapping(
            "for k in 5i..bitcast<i32>(x[i]) step -2i { y[i] = y[i] * 10u + cast<u32>(k + 3i) }",
            (0, 4, 5, 9, 0xFFFF_FFFE),
            (864, 8, 0, 0, 8642),
        ),
        "wide": mapping(
            "for k in 0xffffffffu64..0x100000003u64 step 1u64 { y[i] = y[i] * 16u + cast<u32>(k >> 30u) }",
            (0,),
            (0x3444,),
        ),
        "wide_below_zero": mapping(
            "for k in -2i64..cast<i64>(x[i]) step 1i64 { y[i] = y[i] + cast<u32>(k * k) }", (0, 1, 3), (5, 5, 10)
        ),
        "down_past_the_least": mapping("for k in -2147483646i..-2147483648i step -3i { y[i] = y[i] + 1u }", (0,), (1,)),
        "downward_with_break_and_continue": mapping(
            "for k in 9i..-1i step -1i {"
            " if k == 5i { continue } if k == bitcast<i32>(x[i]) { break } y[i] = y[i] + 1u }",
            (0, 4, 9, 20),
            (8, 4, 0, 9),
        ),
        "a_step_of_the_minimum": mapping(
            "for k in 7i..-2147483648i step -2147483648i { y[i] = y[i] * 10u + cast<u32>(max(k, 0i)) + 1u }",
            (0,),
            (81,),
        ),
    }
)
def loops_that_count_down(bench: Bench, known: Known) -> None:
    """Literal bounds and steps of other types than u32 follow the same rule."""
    check_known(bench, known)


_CASES: Final = " ".join(f"case {k * 3}u {{ y[i] = {k + 1}u }}" for k in range(256))


@FLOW.table(
    {
        "arms": mapping(
            "switch x[i] { case 1u, 2u { y[i] = 10u } case 4u { y[i] = 40u } else { y[i] = 99u } }",
            _SIX,
            (99, 10, 10, 99, 40, 99),
        ),
        "no_default": mapping("y[i] = 7u switch x[i] { case 3u { y[i] = 8u } }", _SIX, (7, 7, 7, 8, 7, 7)),
        "a_default_alone": mapping("switch x[i] { else { y[i] = 5u } }", (1, 2), (5, 5)),
        "empty_arms": mapping(
            "y[i] = 1u switch x[i] { case 0u {} case 1u {} else { y[i] = 2u } }", (0, 1, 2), (1, 1, 2)
        ),
        "the_selector_is_read_once": mapping(
            "let s = x[i] switch s { case 0u { s := 1u } case 1u { s := 2u } case 2u { s := 9u } else { s := 0u } }"
            " y[i] = s",
            (0, 1, 2, 3),
            (1, 2, 9, 0),
        ),
        "signed": mapping(
            "switch bitcast<i32>(x[i]) {"
            " case -1i { y[i] = 1u } case -2147483648i, 5i { y[i] = 2u } else { y[i] = 3u } }",
            (0xFFFF_FFFF, 0x8000_0000, 5, 1),
            (1, 2, 2, 3),
        ),
        "wide": mapping(
            "switch cast<u64>(x[i]) << 31u { case 0u64 { y[i] = 1u } case 0x100000000u64 { y[i] = 2u }"
            " case 0x8000000080000000u64, 0x180000000u64 { y[i] = 3u } else { y[i] = 4u } }",
            (0, 2, 3, 1),
            (1, 2, 3, 4),
        ),
        "wide_and_signed": mapping(
            "switch cast<i64>(bitcast<i32>(x[i])) { case -1i64 { y[i] = 1u } case 0xffffffffi64 { y[i] = 2u }"
            " else { y[i] = 3u } }",
            (0xFFFF_FFFF, 7),
            (1, 3),
        ),
        "nested": mapping(
            "switch x[i] % 2u { case 0u { switch x[i] { case 0u { y[i] = 1u } case 2u { y[i] = 2u } } }"
            " case 1u { switch x[i] { case 3u { y[i] = 3u } else { y[i] = 4u } } } }",
            _SIX,
            (1, 4, 2, 3, 0, 4),
        ),
        "in_a_loop": mapping(
            "for k in 0u..10u { switch k { case 2u { continue } case 7u { break }"
            " else { if k == x[i] { continue } } } y[i] = y[i] * 10u + k }",
            (4, 20),
            (1356, 13456),
        ),
        "with_returns": mapping(
            "y[i] = 1u switch x[i] { case 1u { return } case 2u { y[i] = 2u return } else {} } y[i] = y[i] + 5u",
            (0, 1, 2, 3),
            (6, 1, 2, 6),
        ),
        "locals_of_the_arms": mapping(
            "let s = 0u switch x[i] {"
            " case 0u { let t = 5u s := t } case 1u { let t = 6u s := t + 1u } else { let t = 8u s := t } } y[i] = s",
            (0, 1, 2),
            (5, 7, 8),
        ),
        "of_a_uniform_value": mapping(
            "switch num_groups.x { case 1u { y[i] = 1u } case 2u { y[i] = 2u } else { y[i] = 3u } }", _SIX, (2,) * 6
        ),
        "loops_in_arms": mapping(
            "switch x[i] { case 0u { for k in 0u..3u { y[i] = y[i] + 1u } }"
            " else { for k in 0u..x[i] { y[i] = y[i] + 10u } } }",
            (0, 1, 4),
            (3, 10, 40),
        ),
        "256_arms": mapping(
            f"switch x[i] {{ {_CASES} else {{ y[i] = 1000u }} }}",
            (0, 3, 4, 300, 765, 766, 768, 0xFFFF_FFFF),
            (1, 2, 1000, 101, 256, 1000, 1000, 1000),
        ),
    }
)
def switches(bench: Bench, known: Known) -> None:
    """A lane runs the arm that has its selector among its labels, else the default."""
    check_known(bench, known)


@FLOW.table({"20": 20, "256": 256})
def long_chains(bench: Bench, links: int) -> None:
    """A chain of ``else if`` may be long: its links are not nested."""
    chain = " else ".join(f"if x[i] < {3 * k + 3}u {{ y[i] = {k + 1}u }}" for k in range(links))
    x = (0, 2, 3, 3 * links - 1, 3 * links, 31)
    wanted = tuple(v // 3 + 1 if v < 3 * links else 7 for v in x)
    check_known(bench, mapping(f"{chain} else {{ y[i] = 7u }}", x, wanted))


@FLOW.table(
    {
        "at_once": mapping("return", (1, 2), (0, 0)),
        "some_lanes": mapping("y[i] = 1u if x[i] > 2u { return } y[i] = 2u", _SIX, (2, 2, 2, 1, 1, 1)),
        "in_a_loop": mapping(
            "for k in 0u..10u { if k == x[i] { return } y[i] = y[i] + 1u } y[i] = 99u", (0, 3, 20), (0, 3, 99)
        ),
        "in_nested_loops": mapping(
            "for a in 0u..3u { for b in 0u..3u { if a * 3u + b == x[i] { return } y[i] = y[i] + 1u } } y[i] = 77u",
            (0, 4, 8, 9),
            (0, 4, 8, 77),
        ),
        "of_all_lanes_one_by_one": mapping(
            "if x[i] == 0u { return } y[i] = 1u if x[i] == 1u { return } y[i] = 2u return", (0, 1, 2), (0, 1, 2)
        ),
        "in_else": mapping("if x[i] < 2u { y[i] = 5u } else { return } y[i] = y[i] + 1u", (1, 2), (6, 0)),
    }
)
def returns(bench: Bench, known: Known) -> None:
    """A lane that returns ends; the others continue."""
    check_known(bench, known)


@FLOW.table({"4": 4, "16": 16, "40": 40, "60": 60})
def deep_nesting(bench: Bench, depth: int) -> None:
    """Bodies may be deeply nested."""
    body = "y[i] = y[i] + 1u"
    for level in range(depth):
        body = f"if x[i] > {level}u {{ {body} }} else {{ y[i] = y[i] + 2u }}"
    check_known(
        bench, mapping(body, (0, 1, depth, depth + 1), tuple(2 if v < depth else 1 for v in (0, 1, depth, depth + 1)))
    )


@FLOW.table({"16": 16, "100": 100, "120": 120})
def deep_expressions(bench: Bench, depth: int) -> None:
    """Expressions may be deeply nested, to the left and to the right."""
    left = right = "x[i]"
    for level in range(depth):
        left, right = f"({left} + {level}u)", f"({level}u + {right})"
    total = sum(range(depth))
    check_known(bench, mapping(f"y[i] = {left} * 2u", (0, 5), (2 * total, 2 * total + 10)))
    check_known(bench, mapping(f"y[i] = {right} * 3u", (0, 5), (3 * total, 3 * total + 15)))


@FLOW.case()
def many_statements(bench: Bench) -> None:
    """A program may be long, with many live locals at once."""
    count = 150
    body = " ".join(f"let v{k} = x[i] * {k + 1}u" for k in range(count))
    total = " ^ ".join(f"v{k}" for k in range(60)) + " ^ " + " ^ ".join(f"v{k}" for k in range(60, 120))
    wanted = []
    for value in (1, 9):
        result = 0
        for k in range(120):
            result ^= value * (k + 1)
        wanted.append(result)
    check_known(bench, mapping(f"{body} y[i] = {total}", (1, 9), (wanted[0], wanted[1])))


@FLOW.case()
def stores_of_one_lane_go_in_order(bench: Bench) -> None:
    """The last store of a lane to an element remains, and its loads see its earlier stores."""
    kernel = """
    workgroup_size 1, 1, 1
    buffer y @0 write u32[4]
    body { for k in 0u..10u { y[k % 4u] = y[(k + 3u) % 4u] + k } }
    """
    state = [0, 0, 0, 0]
    for k in range(10):
        state[k % 4] = state[(k + 3) % 4] + k
    equal(bench.words(kernel, grid=(1, 1, 1)), state)


@FLOW.case()
def an_index_is_evaluated_before_the_value(bench: Bench) -> None:
    """In ``x[f] = g`` the index is evaluated first, with its loads."""
    kernel = """
    workgroup_size 1, 1, 1
    buffer at @0 read_write u32[2]
    buffer y @1 write u32[4]
    body { y[atomic_add(at, 0u, 1u)] = atomic_add(at, 0u, 10u) + 100u }
    """
    found = bench.run(kernel, words(1, 0), grid=(1, 1, 1))
    equal(found, (words(12, 0), words(0, 102, 0, 0)))


@FLOW.case()
def equal_stores_of_many_lanes_are_one(bench: Bench) -> None:
    """Lanes may store equal bits to one element."""
    kernel = """
    workgroup_size 64, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[2]
    body { if x[gid.x] == 7u { y[1u] = 1u } }
    """
    equal(bench.words(kernel, words(*[7 if k % 50 == 3 else 0 for k in range(1000)]), grid=(16, 1, 1)), [0, 1])


@FLOW.table({"1": 1, "63": 63, "64": 64, "65": 65, "1000": 1000})
def every_lane_runs_once(bench: Bench, count: int) -> None:
    """A grid whose extent is not a multiple of the workgroup covers its elements exactly."""
    known = mapping("y[i] = y[i] + x[i] + 1u", tuple(range(count)), tuple(range(1, count + 1)), lanes=64)
    check_known(bench, known)
