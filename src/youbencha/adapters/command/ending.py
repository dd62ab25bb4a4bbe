"""What an exit code means beyond good and bad, by the contract of Thunderdome's adapters: 2 is for giving up."""

from __future__ import annotations

from youbencha.adapters.cli_agent import SessionFacts
from youbencha.adapters.command.config import CommandConfig
from youbencha.process import ProcessResult

_GAVE_UP = 2
_TAIL = 2_000


def with_ending(config: CommandConfig, facts: SessionFacts, done: ProcessResult) -> SessionFacts:
    if done.exit.code != _GAVE_UP or _GAVE_UP in config.success_exit_codes:
        return facts
    lines = [line.strip() for line in done.output[-_TAIL:].splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return facts.model_copy(update={"result_is_error": True, "result_subtype": "gave_up", "failure_text": last})
