"""One trial from start to end, and its outcome."""
