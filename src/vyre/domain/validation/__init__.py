"""Validation: structure, types, scopes, flow and memory rules, each with a stable code."""

from __future__ import annotations

from typing import Final

CHECKED: Final = "validation"
"""The place of the report of ``check_rules`` in what a program caches."""
