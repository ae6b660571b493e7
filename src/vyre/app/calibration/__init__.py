"""Launch costs: measured through the port, kept on disk, held against what dispatches take."""
