"""Many queries over resident memory as few launches."""
