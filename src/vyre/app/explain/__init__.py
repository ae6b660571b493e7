"""Explanations of what would be decided about a program, and replay of recorded decisions."""
