"""How the waves of a graph analysis run: kernel shape, order, memory and fixed points."""
