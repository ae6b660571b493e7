"""Telemetry adapters: what the application already logs with, structlog, nothing, or a list for tests."""
