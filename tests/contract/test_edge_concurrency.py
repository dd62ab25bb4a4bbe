"""Four executions at once, with one adapter: nothing of one turns up in another."""

from __future__ import annotations

import asyncio

from agent_clis import NEWEST
from claude_lab import ClaudeLab, bash, prompt_of, script, versions
from youbencha.adapters import AgentExecutionContext
from youbencha.events import AssistantText, Event, SessionStarted

NAMES = ("north", "east", "south", "west")


@versions(NEWEST)  # what is shared (adapter, temporary files, HOME) is the same code for all
async def test_four_at_once_do_not_mix(lab: ClaudeLab) -> None:
    conversations = [
        {
            "when": {"prompt_contains": f"Go {name}."},
            "turns": [bash(f"echo {name} > $WHERE.txt"), {"text": f"I went {name}."}],
        }
        for name in NAMES
    ]
    events: dict[str, list[Event]] = {name: [] for name in NAMES}
    async with lab.model(script({"text": "lost"}, conversations=conversations)) as model:
        adapter = lab.adapter()

        def context(name: str) -> AgentExecutionContext:
            return lab.context(
                model, config={"prompt": f"Go {name}."}, env={"WHERE": name}, on_event=events[name].append
            )

        results = await asyncio.gather(*(adapter.execute(context(name)) for name in NAMES))
        logs = [adapter.normalize_log(result, context(name)) for name, result in zip(NAMES, results, strict=True)]
    assert [result.status for result in results] == ["success"] * 4
    assert sorted({prompt_of(request) for request in model.requests if request.kind == "turn"}) == sorted(
        f"Go {name}." for name in NAMES
    )
    assert len({result.log_file for result in results}) == 4
    assert len({log.session_id for log in logs}) == 4
    for name, result, log in zip(NAMES, results, logs, strict=True):
        assert (lab.workspace / f"{name}.txt").read_text() == f"{name}\n"
        assert [m.content for m in log.messages if m.role == "assistant"] == [f"I went {name}."]
        assert [e.text for e in events[name] if isinstance(e, AssistantText)] == [f"I went {name}."]
        assert {e.session_id for e in events[name] if isinstance(e, SessionStarted)} == {log.session_id}
        assert not [other for other in NAMES if other != name and f"I went {other}" in result.output]
