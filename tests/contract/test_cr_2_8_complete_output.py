"""CR-2.8, FR-004, SC-002: nothing that the agent said is lost."""

from __future__ import annotations

from claude_lab import ClaudeLab, says, script
from youbencha.events import SessionResult

KILOBYTE = "".join(f"{number:07d}\n" for number in range(128))
MEGABYTES = "".join(f"{number:015d}\n" for number in range(3 * 1024 * 1024 // 16))


async def test_cr_2_8_a_kilobyte_is_in_the_output_and_in_the_log_file(lab: ClaudeLab) -> None:
    # Text mode: the output is then the answer itself, not JSON with every line end escaped.
    session = await lab.run(script(says(KILOBYTE)), config={"output_format": "text"})
    assert KILOBYTE.strip() in session.result.output
    assert session.result.log_file is not None
    assert KILOBYTE.strip() in session.result.log_file.read_text(encoding="utf-8")
    assert session.result.errors == ()


async def test_sc_002_three_megabytes_arrive_whole_with_the_result_line(lab: ClaudeLab) -> None:
    session = await lab.run(script(says(MEGABYTES)))
    assert session.result.status == "success", session.result.errors
    answers = [message.content for message in session.log.messages if message.role == "assistant"]
    assert [answer.strip() for answer in answers] == [MEGABYTES.strip()]
    (closing,) = [event for event in session.events if isinstance(event, SessionResult)]
    assert closing.text is not None
    assert closing.text.strip() == MEGABYTES.strip()
