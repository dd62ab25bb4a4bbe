"""`output_format: text`: no stream to read, so that the exit code decides and the text is the answer."""

from __future__ import annotations

from wrapped_cli import wrapped

from claude_lab import ClaudeLab, bash, says, script

TEXT = {"output_format": "text"}


async def test_text_mode_success(lab: ClaudeLab) -> None:
    session = await lab.run(script(bash("echo hidden"), says("The answer\nis 42.")), config=TEXT)
    assert (session.result.status, session.result.exit_code) == ("success", 0), session.result.errors
    assert session.result.output == "The answer\nis 42.\n"
    said = [message.content for message in session.log.messages if message.role == "assistant"]
    assert said == ["The answer\nis 42."]
    assert session.log.usage is not None  # from the CLI's own record: nothing of it was printed
    assert (session.log.usage.output_tokens, session.log.usage.partial) == (40, True)
    assert session.log.agent_info.version == lab.cli.version


async def test_text_mode_failure_quotes_the_text(lab: ClaudeLab) -> None:
    refusal = {"error": {"status": 400, "message": "the script says no"}, "times": "forever"}
    session = await lab.run(script(refusal), config=TEXT)
    assert (session.result.status, session.result.exit_code) == ("failed", 1)
    assert len(session.result.errors) == 1
    assert "the script says no" in session.result.errors[0].message
    assert "the script says no" in session.result.output


async def test_text_mode_with_noise_on_stderr(lab: ClaudeLab) -> None:
    config = {**TEXT, "executable": str(wrapped(lab, "echo a warning of the system >&2"))}
    session = await lab.run(script(says("Done.")), config=config)
    assert session.result.status == "success", session.result.errors
    assert "a warning of the system" in session.result.output
    assert "Done." in session.result.output
