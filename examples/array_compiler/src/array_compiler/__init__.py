"""A compiler of a small array language, with vyre as its driver layer."""

from array_compiler.driver import Executable
from array_compiler.problems import ArrayError, NotSupported, ParseError, RunError, ShapeError

__all__ = ["ArrayError", "Executable", "NotSupported", "ParseError", "RunError", "ShapeError"]
