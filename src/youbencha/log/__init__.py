"""What a run leaves behind, as data: the normalised log that is the same for every agent."""

from youbencha.log.model import (
    AgentInfo,
    ErrorRecord,
    Execution,
    Message,
    ModelInfo,
    Status,
    ToolCall,
    Usage,
    YouBenchaLog,
    iso_time,
)

__all__ = [
    "AgentInfo",
    "ErrorRecord",
    "Execution",
    "Message",
    "ModelInfo",
    "Status",
    "ToolCall",
    "Usage",
    "YouBenchaLog",
    "iso_time",
]
