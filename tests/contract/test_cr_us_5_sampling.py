"""US-5: max_tokens and temperature. The CLI has no flags for them; they are in the request all the same."""

from __future__ import annotations

from wrapped_cli import Recorder

from claude_lab import ClaudeLab, says, script


async def test_us_5_max_tokens_and_temperature_are_in_the_request(lab: ClaudeLab) -> None:
    recorder = Recorder(lab)
    config = {**recorder.config, "max_tokens": 4321, "temperature": 0.25}
    session = await lab.run(script(says("Done.")), config=config)
    assert session.result.status == "success", session.result.errors
    body = session.main_requests[0].body
    assert body["max_tokens"] == 4321
    assert body["temperature"] == 0.25
    assert body["thinking"] == {"type": "disabled"}  # the API takes no other temperature than 1 with thinking
    assert not {"--max-tokens", "--temperature", "4321", "0.25"} & set(recorder.argv())
