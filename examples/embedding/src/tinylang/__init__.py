"""A stand-in for a larger compiler: element-wise expressions over named float arrays."""

from tinylang.driver import Compiler
from tinylang.lower import lower
from tinylang.syntax import Add, Expression, Mul, Name, Number, parse

__all__ = ["Add", "Compiler", "Expression", "Mul", "Name", "Number", "lower", "parse"]
