"""What tells this agent from others."""

from youbencha.adapters.cli_agent import Kind

COMMAND = Kind(name="command", title="The command", prefix="COMMAND", command="", logs="command-logs")
