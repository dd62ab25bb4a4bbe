"""A model that answers from a script: the usual APIs on loopback, for tests and for writers of adapters."""

from youbencha.gateway.api import WireName
from youbencha.gateway.script.format import (
    Answer,
    Conversation,
    Script,
    ToolCall,
    Turn,
    Usage,
    When,
    load_script,
    parse_script,
)
from youbencha.gateway.script.server import RecordedRequest, ScriptedModel

__all__ = [
    "Answer",
    "Conversation",
    "RecordedRequest",
    "Script",
    "ScriptedModel",
    "ToolCall",
    "Turn",
    "Usage",
    "When",
    "WireName",
    "load_script",
    "parse_script",
]
