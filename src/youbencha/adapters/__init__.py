"""Adapters, one for each agent: they turn a configuration into a command, and output into a YouBenchaLog."""

from youbencha.adapters.base import AgentAdapter, AgentExecutionContext, AgentExecutionResult, BaseAdapter
from youbencha.adapters.registry import adapter_descriptions, adapter_names, get_adapter

__all__ = [
    "AgentAdapter",
    "AgentExecutionContext",
    "AgentExecutionResult",
    "BaseAdapter",
    "adapter_descriptions",
    "adapter_names",
    "get_adapter",
]
