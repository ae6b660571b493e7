"""Programs to PTX text: deterministic, needs neither a driver nor a CUDA package."""
