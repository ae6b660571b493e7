"""Provers behind the port ``ports.proving``."""
