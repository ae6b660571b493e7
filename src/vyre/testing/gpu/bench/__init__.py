"""The groups of ``bench``."""
