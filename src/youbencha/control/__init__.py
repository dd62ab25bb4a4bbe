"""Driving an agent: the control protocol, which tools it may use, and what it spent."""

from youbencha.control.cli import metrics
from youbencha.control.machine import Action, Decided, Machine, Send, SessionEnded, State, Timeouts, Warn
from youbencha.control.policy import ALLOW_ALL, PolicyDecision, ToolPolicy, rule_error
from youbencha.control.tally import SessionTally
from youbencha.usage import SIDECAR

__all__ = [
    "ALLOW_ALL",
    "SIDECAR",
    "Action",
    "Decided",
    "Machine",
    "PolicyDecision",
    "Send",
    "SessionEnded",
    "SessionTally",
    "State",
    "Timeouts",
    "ToolPolicy",
    "Warn",
    "metrics",
    "rule_error",
]
