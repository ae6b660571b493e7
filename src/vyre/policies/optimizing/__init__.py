"""Decisions about the optimizer: which passes prepare a program, and in which order."""
