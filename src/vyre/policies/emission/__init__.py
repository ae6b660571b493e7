"""How an emitter writes what a program says."""
