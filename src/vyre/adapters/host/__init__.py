"""Adapters that run on the host beside a device."""
