"""Dispatches that run while the caller goes on: futures, event loops, and how many may be under way."""
