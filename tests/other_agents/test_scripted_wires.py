"""One script, three APIs, and one real agent that supports them all."""

from __future__ import annotations

from pathlib import Path

import pytest
from copilot_bench import copilot_bench
from toolbox_agents import script

pytestmark = [pytest.mark.real_cli, pytest.mark.full]

SCRIPT = script(
    {
        "text": "I write.",
        "tools": [{"name": "bash", "input": {"command": "echo hi > '${cwd}/x.txt'", "description": "write"}}],
    },
    {"text": "Done."},
)


@pytest.mark.parametrize(
    ("provider", "api", "wire"),
    [
        ("openai", "completions", "openai-chat"),
        ("openai", "responses", "openai-responses"),
        ("anthropic", "completions", "anthropic-messages"),
    ],
)
async def test_the_same_script_in_every_api(tmp_path: Path, provider: str, api: str, wire: str) -> None:
    bench = copilot_bench(tmp_path)
    url = "{url}/v1" if provider == "openai" else "{url}"
    spoken = {
        "COPILOT_PROVIDER_BASE_URL": url, "COPILOT_PROVIDER_TYPE": provider, "COPILOT_PROVIDER_WIRE_API": api,
    }  # fmt: skip
    bench.variables = {**bench.variables, **spoken}
    done = await bench.run(SCRIPT)
    assert done.result.status == "success", done.result.errors
    assert (tmp_path / "workspace" / "x.txt").read_text() == "hi\n"
    assert [message.content for message in done.log.messages][1:] == ["I write.", "Done."]
    assert [(request.wire, request.turn) for request in done.requests] == [(wire, 0), (wire, 1)]
