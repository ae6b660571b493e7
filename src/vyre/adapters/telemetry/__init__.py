"""Telemetry adapters: the logging that the application already uses, counted decisions, and a guard of both."""
