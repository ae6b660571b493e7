"""An emulated CUDA driver: runs PTX over NumPy lanes, checks every access, injects faults."""
