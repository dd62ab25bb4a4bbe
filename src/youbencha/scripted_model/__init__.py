"""A model that answers from a script, with the usual APIs on loopback, for tests and for writing adapters."""

from youbencha.gateway.wires import WireName
from youbencha.scripted_model.format import (
    Script,
    ScriptedAnswer,
    ScriptedConversation,
    ScriptedToolCall,
    ScriptedUsage,
    Turn,
    When,
    load_script,
    parse_script,
)
from youbencha.scripted_model.server import RecordedRequest, ScriptedModel

__all__ = [
    "RecordedRequest",
    "Script",
    "ScriptedAnswer",
    "ScriptedConversation",
    "ScriptedModel",
    "ScriptedToolCall",
    "ScriptedUsage",
    "Turn",
    "When",
    "WireName",
    "load_script",
    "parse_script",
]
