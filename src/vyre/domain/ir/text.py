"""The text form ``.vyre``: ``parse_program(print_program(p)) == p``; docs/text-format.md has the grammar."""

from vyre.domain.ir.text_parser import parse_program
from vyre.domain.ir.text_printer import print_program

__all__ = ["parse_program", "print_program"]
