"""An emulated CUDA device and driver: PTX text runs on NumPy lanes, with checks that hardware does not make."""
