"""The text form ``.vyre``: ``parse_program(print_program(p)) == p``; docs/text-format.md has the grammar."""

from typing import Final

from vyre.domain.ir.program import Program
from vyre.domain.ir.text_printer import print_program

__all__ = ["parse_program", "print_program"]

parse_program: Final = Program.from_text
