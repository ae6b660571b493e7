"""Calibration: launch costs are measured through the port, stored on disk, and compared with dispatches."""
