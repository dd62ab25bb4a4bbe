"""What happened in a run, in order: its events are recorded in a file, and folded into entries."""
