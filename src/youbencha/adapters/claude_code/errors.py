"""Claude Code among the agents: its names, and what keeps it from being started, as exceptions."""

from __future__ import annotations

from youbencha.adapters.cli_agent.kind import Kind

HOW_TO_AUTHENTICATE = (
    "Set ANTHROPIC_API_KEY (in agent.env or your environment), or log in once: run `claude` and type /login "
    "(newer versions: `claude auth login`)."
)
CLAUDE = Kind(
    name="claude-code",
    title="Claude Code",
    prefix="CLAUDE",
    command="claude",
    logs="claude-code-logs",
    provider="anthropic",  # who made the model; Bedrock and Vertex only serve it
    how_to_authenticate=HOW_TO_AUTHENTICATE,
)

auth_failed = CLAUDE.auth_failed
invalid_config = CLAUDE.invalid_config
one_problem = CLAUDE.one_problem
