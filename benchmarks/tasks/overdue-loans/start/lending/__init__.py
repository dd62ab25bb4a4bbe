"""The tool library's catalogue."""
