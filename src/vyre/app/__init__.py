"""The application layer: sessions, backend selection, tuning, calibration, the container and the command line."""
