"""Implementations of the ports: backends, stores, telemetry and the operating system."""
