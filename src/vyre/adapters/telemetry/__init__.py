"""Telemetry adapters: the logging that the application already uses, and structlog."""
