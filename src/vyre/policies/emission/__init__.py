"""Decisions about code emission: how an emitter writes an operation of the program."""
