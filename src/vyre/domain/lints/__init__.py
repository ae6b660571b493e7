"""Notes on valid programs: code that is legal but probably not intended."""
