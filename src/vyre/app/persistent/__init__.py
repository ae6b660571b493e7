"""Persistent jobs: a program is kept running, and jobs are handed to it without a launch each."""
