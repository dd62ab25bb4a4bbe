"""One package for each agent: configuration to command, output to YouBenchaLog."""

from youbencha.adapters.base import AgentAdapter, AgentExecutionContext, AgentExecutionResult

__all__ = ["AgentAdapter", "AgentExecutionContext", "AgentExecutionResult"]
