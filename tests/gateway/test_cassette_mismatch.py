"""A request without a recording is compared with the nearest recorded one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cassette_helpers import HERE, THERE, asking, keep_text, messages, places

from youbencha.gateway.cassette.cassette import Cassette, CassetteSession
from youbencha.gateway.cassette.matching import Mismatch

SYSTEM = "\n".join(f"Rule {number}." for number in range(2000))
TOOLS = [{"name": name, "description": name * 300} for name in ("Bash", "Read")]


def talk(*texts: str, **more: Any) -> dict[str, Any]:
    return messages(*texts, **{"system": SYSTEM, "tools": TOOLS, **more})


@pytest.fixture
def session(tmp_path: Path) -> CassetteSession:
    recording = Cassette(tmp_path, "record").session(places())
    for texts in (("go",), ("go", "ok", f"1 passed\nin {HERE}/a\n2 files"), ("other task",)):
        keep_text(recording, asking(talk(*texts)), "fine")
    keep_text(recording, asking(messages("title?", model="claude-small")), "A title")
    return Cassette(tmp_path, "replay").session(places(THERE))


def ask(session: CassetteSession, body: object, path: str = "/v1/messages") -> Mismatch:
    asked = asking(body, path)
    assert session.find(asked) is None
    return session.mismatch(asked)


def test_a_message_differs(session: CassetteSession) -> None:
    found = ask(session, talk("go", "ok", f"1 failed\nin {THERE}/a\n2 files"))
    assert found.summary == "message 3 (user) differs: '1 failed', recorded: '1 passed'"
    head, nearest, _, *diff = found.text.splitlines()
    assert head == f"POST /v1/messages: {found.summary}"
    assert nearest.startswith("The nearest recorded request is claude-test-003-")
    assert [line for line in diff if line[:1] in "+-"] == [
        "--- recorded",
        "+++ now",
        "-      1 passed",
        "+      1 failed",
    ]
    assert "       in {{workspace}}/a" in diff
    assert "Rule" not in found.text, "what is equal is left out"


def test_a_long_line_is_shown_where_it_differs(tmp_path: Path) -> None:
    keep_text(Cassette(tmp_path, "record").session(places()), asking(messages("word " * 200 + "one")), "fine")
    found = ask(Cassette(tmp_path, "replay").session(places()), messages("word " * 200 + "two"))
    assert "word two', recorded: '…" in found.summary
    assert [line[-8:] for line in found.text.splitlines() if line[:2] in ("-…", "+…")] == ["word one", "word two"]


def test_more_messages_than_were_recorded(session: CassetteSession) -> None:
    found = ask(session, talk("go", "ok", f"1 passed\nin {THERE}/a\n2 files", "done", "and now?"))
    assert found.summary == "it has 5 messages, the recording has 3"
    assert "+    content: and now?" in found.text.splitlines()


def test_a_message_with_an_added_line(session: CassetteSession) -> None:
    found = ask(session, talk("go", "ok", f"1 passed\nin {THERE}/a\n2 files\nand more"))
    assert "added: 'and more'" in found.summary


def test_a_message_with_a_missing_line(session: CassetteSession) -> None:
    found = ask(session, talk("go", "ok", f"1 passed\nin {THERE}/a"))
    assert "missing: '2 files'" in found.summary


def test_the_nearest_has_the_longest_common_start(session: CassetteSession) -> None:
    assert "other task" in ask(session, talk("other tasks")).text
    assert "claude-small-001" in ask(session, messages("title!", model="claude-small")).text


def test_earlier_messages_count_more_than_wording(tmp_path: Path) -> None:
    recording = Cassette(tmp_path, "record").session(places())
    for texts in (("go", "ok", "a"), ("go", "no", "all of it failed at once")):
        keep_text(recording, asking(messages(*texts)), "fine")
    session = Cassette(tmp_path, "replay").session(places())
    assert "message 3" in ask(session, messages("go", "ok", "all of it failed at once!")).summary


def test_instructions_tools_and_options(session: CassetteSession) -> None:
    tools = [TOOLS[0], {"name": "Write"}]
    found = ask(session, talk("go", system=SYSTEM.replace("Rule 1000.", "Law 1000."), tools=tools, max_tokens=7))
    assert found.summary.split("; ", 2) == [
        "`max_tokens` differs: '7', recorded: '1000'",
        "`system` differs: 'Law 1000.', recorded: 'Rule 1000.'",
        "the tools differ (new: Write; missing: Read)",
    ]
    assert "-  Rule 1000." in found.text.splitlines()
    assert "+  Law 1000." in found.text.splitlines()


def test_a_key_that_is_new_or_missing(session: CassetteSession) -> None:
    assert ask(session, talk("go", thinking={"type": "enabled"})).summary == "`thinking` is new"
    body = talk("go")
    del body["max_tokens"]
    assert ask(session, body).summary == "`max_tokens` is missing"


def test_no_recording_of_this_api(session: CassetteSession) -> None:
    found = ask(session, {"input": "go"}, "/v1/responses")
    assert found.summary == "nothing is recorded for POST /v1/responses; recorded: 4 of POST /v1/messages"


def test_no_body(session: CassetteSession) -> None:
    assert ask(session, None).summary == "the body differs"


def test_the_text_is_bounded(session: CassetteSession) -> None:
    found = ask(session, talk("x" * 100_000, system="\n".join(f"{n} " * 60 for n in range(3000))))
    assert len(found.text) < 30_000
    assert len(found.summary) < 500
    assert "more lines" in found.text.splitlines()[-1]


def test_the_text_contains_no_secret(tmp_path: Path) -> None:
    keep_text(Cassette(tmp_path, "record").session(places()), asking(messages("go")), "fine")
    key = "sk-ant-api03-0123456789abcdefghij"
    found = ask(Cassette(tmp_path, "replay").session(places()), messages(f"key {key}"))
    assert "key [REDACTED]" in found.text
    assert key not in found.text + found.summary


def test_only_likely_candidates_are_compared(tmp_path: Path) -> None:
    """Those of the same model that are about as long: a cassette may hold thousands."""
    recording = Cassette(tmp_path, "record").session(places())
    for number in range(60):
        keep_text(recording, asking(messages("other", model=f"claude-{number}")), "fine")
        keep_text(recording, asking(messages("go", *["and"] * 30, f"{number}")), "fine")
    keep_text(recording, asking(messages("go", "ok", "fine")), "fine")
    session = Cassette(tmp_path, "replay").session(places())
    assert "message 3 (user) differs: 'content: bad'" in ask(session, messages("go", "ok", "bad")).summary


def test_a_recording_of_an_older_youbencha_is_reported(tmp_path: Path) -> None:
    keep_text(Cassette(tmp_path, "record").session(places()), asking(messages("go")), "fine")
    (file,) = (tmp_path / "exchanges").iterdir()
    file.write_text(file.read_text().replace('"version": 3', '"version": 2'))
    found = ask(Cassette(tmp_path, "replay").session(places()), messages("stop"))
    assert "recorded by an older youBencha" in found.text
