"""A model that answers from a script: the usual APIs on loopback, for tests and for writers of adapters."""

from youbencha.gateway.script.format import Answer, Conversation, Script, ToolCall, Turn, Usage, When
from youbencha.gateway.script.loading import load_script, parse_script
from youbencha.gateway.script.server import RecordedRequest, ScriptedModel
from youbencha.gateway.script.wires import WireName

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
