"""Decisions of the reference system that are meaningless here, kept for the vectors that they answer.

``docs/maintainers/README.md`` says of each why nothing asks it.
"""
