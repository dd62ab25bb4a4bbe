"""CR-2.6, FR-009, FR-015, SC-007: the model that is asked for is the model that is called, and reported."""

from __future__ import annotations

from wrapped_cli import Recorder

from claude_lab import ClaudeLab, says, script

MODEL = "claude-sonnet-4-5-20250929"


async def test_cr_2_6_fr_009_the_model_is_the_one_on_the_wire(lab: ClaudeLab) -> None:
    recorder = Recorder(lab)
    session = await lab.run(script(says("Done.")), config={**recorder.config, "model": MODEL})
    argv = recorder.argv()
    assert argv[argv.index("--model") + 1] == MODEL
    assert {request.body["model"] for request in session.main_requests} == {MODEL}
    assert session.log.model_info.name == MODEL


async def test_us_2_3_sc_007_without_a_model_the_cli_chooses_and_the_log_says_which(lab: ClaudeLab) -> None:
    recorder = Recorder(lab)
    session = await lab.run(script(says("Done.")), config=recorder.config)
    assert not {"--model", "--agent", "--agents"} & set(recorder.argv())
    assert session.log.model_info.name == session.main_requests[0].body["model"]
