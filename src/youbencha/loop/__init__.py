"""Run an agent again and again in one directory, until its work is done and verified."""
