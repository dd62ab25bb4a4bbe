"""Driving an agent: the control protocol, which tools it may use, and what it spent."""

from youbencha.control.actions import Action, Decided, Over, Send, Warn
from youbencha.control.machine import Machine, State
from youbencha.control.metrics import metrics
from youbencha.control.patience import Patience
from youbencha.control.policy import ALLOW_ALL, Decision, ToolPolicy, problem_in
from youbencha.control.tally import Tally
from youbencha.log.sidecar import SIDECAR

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
