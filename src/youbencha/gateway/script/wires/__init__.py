"""The APIs that a script is served as, and which path belongs to which."""

from youbencha.gateway.routes import Action, WireName
from youbencha.gateway.script.wires.routes import ANTHROPIC, endpoint_of
from youbencha.gateway.script.wires.wire import Wire

__all__ = ["ANTHROPIC", "Action", "Wire", "WireName", "endpoint_of"]
