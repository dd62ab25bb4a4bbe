"""Seed 004, error handling: a result with is_error is a failure, with the API's own status and words."""

from __future__ import annotations

from claude_lab import ClaudeLab, script


async def test_an_api_error_is_a_failure_with_its_status(lab: ClaudeLab) -> None:
    refusal = {"error": {"status": 400, "message": "the script says no"}, "times": "forever"}
    session = await lab.run(script(refusal))
    assert session.result.status == "failed"
    assert session.result.exit_code == 1
    assert session.codes() == ["CLAUDE_API_ERROR"]
    (error,) = session.result.errors
    assert "the script says no" in error.message
    assert error.context is not None
    assert error.context["status"] == 400
    assert error.hint
