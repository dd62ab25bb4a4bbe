"""Look at what an agent left behind, and say whether it is right."""
