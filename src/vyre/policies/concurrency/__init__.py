"""Decisions about concurrency: which operations may run at the same time, and which must stay in order."""
