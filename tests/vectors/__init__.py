"""Golden vectors: decisions and keys as the reference system made them, and the code of ours that answers each."""
