"""``with_unique_locals``: renamed locals, and programs that need no renaming."""

from __future__ import annotations

from support.optimizer.optimized_programs import check_kept, random_cases
from vyre.domain.ir.program import Program
from vyre.domain.optimize.walking import with_unique_locals

SHADOWED = """program k
workgroup_size 1, 1, 1
buffer out @0 write u32[8]
body {
  let a = 1u
  if a == 1u {
    let a = a + 1u
    out[0u] = a
  } else if a == 2u {
    let a = 7u
    out[1u] = a
  }
  for i in 0u .. 3u {
    let a = a + i
    out[i] = a
  }
  for i in 0u .. 3u {
    out[i] = a + i
  }
}
"""


def _program(text: str) -> Program:
    return Program.from_text(text)


def test_a_local_that_shadows_another_gets_a_name_of_its_own() -> None:
    made = with_unique_locals(_program(SHADOWED)).to_text()
    assert "let a_1 = a + 1u" in made and "out[0u] = a_1" in made
    assert "let a_2 = 7u" in made and "out[1u] = a_2" in made
    assert "let a_3 = a + i\n" in made and "out[i] = a_3" in made
    assert "for i_1 in" in made and "out[i_1] = a + i_1" in made


def test_a_program_with_unique_names_is_returned_itself() -> None:
    once = with_unique_locals(_program(SHADOWED))
    assert with_unique_locals(once) is once
    assert with_unique_locals(_program(once.to_text())).to_text() == once.to_text()


def test_renaming_keeps_the_bytes_of_random_programs() -> None:
    for case in random_cases(range(60)):
        check_kept(case, with_unique_locals)
