"""The commands of `ralph` and `yb loop`."""
