"""The backend on top of the driver seam: memory, launches, resident buffers, graphs, asynchronous dispatch."""
