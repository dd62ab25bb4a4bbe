"""Files for the programs of a task, not for this one: they make test runners report each test. See `reports`."""
