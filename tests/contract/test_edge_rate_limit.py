"""Rate limits: known for what they are, and, where the CLI tells it, when they end."""

from __future__ import annotations

import dataclasses
import os
import time

from agent_clis import ALL_VERSIONS
from claude_lab import ClaudeLab, Session, script, versions
from youbencha.log import iso_time

pytestmark = versions(*ALL_VERSIONS)


def limited(**headers: str | int) -> dict[str, object]:
    message = "This request would exceed your account's rate limit."
    error = {"status": 429, "message": message, "headers": {"x-should-retry": "false", **headers}}
    return {"error": error, "times": "forever"}


async def test_a_rate_limit_of_an_api_key_does_not_say_when_it_ends(lab: ClaudeLab) -> None:
    session = await lab.run(script(limited()))
    assert session.result.status == "failed"
    assert session.codes() == ["CLAUDE_RATE_LIMIT"]
    (error,) = session.result.errors
    assert error.context is not None
    assert error.context["status"] == 429
    assert error.context["resets_at"] is None


async def test_a_usage_limit_of_a_subscription_says_when_it_ends(lab: ClaudeLab) -> None:
    """2.1.x tells the moment; 2.0.62 a time of day and its zone; 1.0.128 one without a zone, as its clock shows."""
    resets_at = (int(time.time()) // 3600 + 2) * 3600 + 25 * 60
    turn = limited(
        **{
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            "anthropic-ratelimit-unified-reset": resets_at,
            "retry-after": 120,
        }
    )
    if zone := os.environ.get("TZ"):
        lab.harness_env["TZ"] = zone
    async with lab.model(script(turn)) as model:
        context = lab.context(model, env={"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy"})
        without_key = {name: value for name, value in context.env.items() if name != "ANTHROPIC_API_KEY"}
        context = dataclasses.replace(context, env=without_key)
        result = await lab.adapter().execute(context)
        session = Session(result, lab.adapter().normalize_log(result, context), model.requests, [])
    assert session.result.status == "failed"
    assert session.codes() == ["CLAUDE_RATE_LIMIT"], session.result.output
    (error,) = session.result.errors
    assert error.context is not None
    assert error.context["resets_at"] == iso_time(resets_at), error.message
