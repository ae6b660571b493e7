"""Several launches joined into one program, whose bytes are those of the launches one after the other."""
