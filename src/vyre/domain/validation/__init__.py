"""Validation: structure, types, scopes, flow and memory rules, each with a stable code."""
