"""Decisions about transfers: which data stays on the device, and how copies to and from the host are packed."""
