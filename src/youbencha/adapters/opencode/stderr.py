"""What opencode says on stderr only: the real reason of a failure, and that it took another agent than it was told."""

from __future__ import annotations

import re

from youbencha.adapters.cli_agent import SessionFacts
from youbencha.adapters.cli_agent.terminal_text import strip_ansi

AGENT_NOT_FOUND = "agent_not_found"
_OTHER_AGENT = re.compile(r'^\W*(agent "[^"\n]*" not found\. Falling back to default agent)', re.MULTILINE)
_LOGGED = re.compile(r'^timestamp=\S+ level=ERROR [^\n]*? error="((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_VAGUE = "Unexpected server error"


def with_stderr(facts: SessionFacts, output: str) -> SessionFacts:
    if "Falling back to default agent" in output and (found := _OTHER_AGENT.search(strip_ansi(output))):
        # It ends well, but what was measured is not what was asked for.
        return facts.model_copy(
            update={"result_is_error": True, "result_subtype": AGENT_NOT_FOUND, "result_text": found[1]}
        )
    if facts.failed and facts.failure_text.startswith(_VAGUE):
        reasons = _LOGGED.findall(output)
        return facts.model_copy(update={"failure_text": reasons[-1]}) if reasons else facts
    return facts
