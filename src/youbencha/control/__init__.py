"""Driving an agent: the control protocol, which tools it may use, and what it spent."""

from youbencha.control.cli import metrics
from youbencha.control.machine import Action, Decided, Machine, Over, Patience, Send, State, Warn
from youbencha.control.policy import ALLOW_ALL, Decision, ToolPolicy, problem_in
from youbencha.control.tally import Tally
from youbencha.usage import SIDECAR

__all__ = [
    "ALLOW_ALL",
    "SIDECAR",
    "Action",
    "Decided",
    "Decision",
    "Machine",
    "Over",
    "Patience",
    "Send",
    "State",
    "Tally",
    "ToolPolicy",
    "Warn",
    "metrics",
    "problem_in",
]
