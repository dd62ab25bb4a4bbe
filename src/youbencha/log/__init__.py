"""The normalised log of a run, which is the same for every agent."""
