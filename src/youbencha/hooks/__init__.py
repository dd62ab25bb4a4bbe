"""What people let run before the agent and after the evaluation."""
