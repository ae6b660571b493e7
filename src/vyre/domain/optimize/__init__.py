"""The optimizer: passes from programs to programs that keep every byte and every error."""
