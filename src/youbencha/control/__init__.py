"""Drive an agent with its control protocol, and decide which tools it may use."""
