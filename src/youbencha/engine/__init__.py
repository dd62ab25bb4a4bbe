"""Run a matrix of trials: plan, schedule, journal, retry and resume."""
