"""Where a trial's processes run, and the agent CLIs that are kept for them."""
