"""The groups of ``check``."""
