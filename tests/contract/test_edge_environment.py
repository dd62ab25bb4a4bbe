"""CR-2.11: the agent sees what it is given, and nothing of what the harness itself has; secrets are written nowhere."""

from __future__ import annotations

from claude_lab import API_KEY, ClaudeLab, bash, says, script

HARNESS = {
    "CLAUDECODE": "harness-1",
    "CLAUDE_CODE_ENTRYPOINT": "harness-2",
    "CLAUDE_CODE_SSE_PORT": "harness-3",
    "GITHUB_TOKEN": "harness-4-ghp-0123456789",
    "ANTHROPIC_MODEL": "claude-harness-5",
    "NODE_OPTIONS": "--title=harness-6",
}
SECRET = "swordfish-0123456789abcdef"


async def test_cr_2_11_the_harness_own_variables_do_not_reach_the_agent(lab: ClaudeLab) -> None:
    lab.harness_env |= HARNESS
    session = await lab.run(script(bash("env"), says("Done.")), env={"GIVEN": "by the test case"})
    (call,) = session.log.tool_calls
    assert call.result is not None
    assert "GIVEN=by the test case" in call.result
    assert "harness-" not in call.result
    assert "GITHUB_TOKEN" not in call.result


async def test_secrets_that_the_agent_prints_are_masked_everywhere(lab: ClaudeLab) -> None:
    command = 'echo "key=$ANTHROPIC_API_KEY token=$SERVICE_TOKEN"'
    session = await lab.run(script(bash(command), says(f"The token is {SECRET}.")), env={"SERVICE_TOKEN": SECRET})
    assert session.result.status == "success", session.result.errors
    assert session.result.log_file is not None
    # It did print them: the model was told.
    assert SECRET in str(session.main_requests[-1].body["messages"])
    written = {
        "output": session.result.output,
        "log file": session.result.log_file.read_text(encoding="utf-8"),
        "log": session.log.model_dump_json(),
        "details": str(session.result.details),
        "events": str(session.events),
    }
    for secret in (SECRET, API_KEY):
        assert [where for where, text in written.items() if secret in text] == []
    assert "The token is" in session.result.output
