"""Laws of the operators: equations between expressions, each checked before anything relies on it."""
