"""Drive an agent by its control protocol, and decide which tools it may use."""
