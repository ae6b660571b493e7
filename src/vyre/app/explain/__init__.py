"""Explaining: what would be decided about a program and why, and whether recorded decisions are still the same."""
