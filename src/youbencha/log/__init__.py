"""Models of a run's files: the normalised log, which is the same for every agent, and the results."""
