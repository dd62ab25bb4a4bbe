"""A request without a recording is compared with what was recorded at the same point of the session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cassette_helpers import HERE, THERE, asking, keep_text, messages, places

from youbencha.gateway.cassette.cassette import Cassette, CassetteSession
from youbencha.gateway.cassette.mismatch import Mismatch

SYSTEM = "\n".join(f"Rule {number}." for number in range(2000))
TOOLS = [{"name": name, "description": name * 300} for name in ("Bash", "Read")]


def talk(*texts: str, **more: Any) -> dict[str, Any]:
    return messages(*texts, **{"system": SYSTEM, "tools": TOOLS, **more})


@pytest.fixture
def session(tmp_path: Path) -> CassetteSession:
    """Replays a session of two conversations and a side request."""
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
    assert session.find(asking(talk("go"))) is not None
    found = ask(session, talk("go", "ok", f"1 failed\nin {THERE}/a\n2 files"))
    assert found.summary == "message 3 (user) differs: '1 failed', recorded: '1 passed'"
    head, recorded, _, *diff = found.text.splitlines()
    assert head == f"POST /v1/messages: {found.summary}"
    assert recorded.startswith("At this point of the session, claude-test-003-")
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
    assert session.find(asking(talk("go"))) is not None
    found = ask(session, talk("go", "ok", f"1 passed\nin {THERE}/a\n2 files", "done", "and now?"))
    assert found.summary == "it has 5 messages, the recording has 3"
    assert "+    content: and now?" in found.text.splitlines()


def test_a_message_with_an_added_line(session: CassetteSession) -> None:
    assert session.find(asking(talk("go"))) is not None
    found = ask(session, talk("go", "ok", f"1 passed\nin {THERE}/a\n2 files\nand more"))
    assert "added: 'and more'" in found.summary


def test_a_message_with_a_missing_line(session: CassetteSession) -> None:
    assert session.find(asking(talk("go"))) is not None
    found = ask(session, talk("go", "ok", f"1 passed\nin {THERE}/a"))
    assert "missing: '2 files'" in found.summary


def test_the_start_of_another_conversation(session: CassetteSession) -> None:
    """It is compared with one of the same model that is still to come."""
    assert session.find(asking(talk("go"))) is not None
    assert "message 1 (user) differs: 'content: other tasks', recorded: 'content: other task'" in (
        ask(session, talk("other tasks")).summary
    )
    assert "claude-small-001" in ask(session, messages("title!", model="claude-small")).text


def test_a_later_turn_is_compared_with_the_same_turn(tmp_path: Path) -> None:
    """Not with a similar one: what comes next depends on what came before."""
    recording = Cassette(tmp_path, "record").session(places())
    turns = [("go",), ("go", "ok", "a"), ("go", "ok", "a", "no", "all of it failed at once")]
    for texts in turns:
        keep_text(recording, asking(messages(*texts)), "fine")
    session = Cassette(tmp_path, "replay").session(places())
    assert session.find(asking(messages(*turns[0]))) is not None
    assert "differs: 'content: all of it failed', recorded: 'content: a'" in (
        ask(session, messages("go", "ok", "all of it failed")).summary
    )


def test_what_did_not_change_between_turns_is_shown_too(tmp_path: Path) -> None:
    """The recording of the second turn does not repeat the instructions of the first."""
    recording = Cassette(tmp_path, "record").session(places())
    for texts in (("go",), ("go", "ok", "a")):
        keep_text(recording, asking(talk(*texts)), "fine")
    assert all(file.stat().st_size < 1000 for file in (tmp_path / "exchanges").glob("*-003-*"))
    session = Cassette(tmp_path, "replay").session(places())
    assert session.find(asking(talk("go"))) is not None
    found = ask(session, talk("go", "ok", "a", system=SYSTEM.replace("Rule 1000.", "Law 1000.")))
    assert found.summary == "`system` differs: 'Law 1000.', recorded: 'Rule 1000.'"
    assert "-  Rule 1000." in found.text.splitlines()


def test_after_the_end_of_a_recording(session: CassetteSession) -> None:
    whole = ("go", "ok", f"1 passed\nin {THERE}/a\n2 files")
    for texts in (whole[:1], whole):
        assert session.find(asking(talk(*texts))) is not None
    found = ask(session, talk(*whole, "done", "and now?"))
    assert "claude-test-003-" in found.summary
    assert "where the recording ends" in found.summary


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
    assert "nothing is recorded for POST /v1/responses" in found.summary
    assert "4 of POST /v1/messages" in found.summary


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


def test_a_recording_of_an_older_youbencha_is_reported(tmp_path: Path) -> None:
    """It is replayed, but does not say at which point of a session its requests are."""
    keep_text(Cassette(tmp_path, "record").session(places()), asking(messages("go")), "fine")
    (file,) = (tmp_path / "exchanges").iterdir()
    file.write_text(file.read_text().replace('"version": 4', '"version": 3'))
    session = Cassette(tmp_path, "replay").session(places())
    assert "recorded by an older youBencha" in ask(session, messages("stop")).text
    assert session.find(asking(messages("go"))) is not None


@pytest.mark.parametrize("after", ["itself", "nothing", "another"])
def test_requests_that_refer_to_each_other(tmp_path: Path, after: str) -> None:
    """A cassette from someone else may have any references."""
    recording = Cassette(tmp_path, "record").session(places())
    for texts in (("go",), ("go", "ok", "a"), ("go", "ok", "a", "ok", "b")):
        keep_text(recording, asking(talk(*texts)), "fine")
    one, two, three = (tmp_path / "exchanges").iterdir()
    written = {file: json.loads(file.read_text()) for file in sorted([one, two, three])}
    _, second, third = written.values()
    fingerprints = {"itself": second["fingerprint"], "nothing": "../../x", "another": third["fingerprint"]}
    second["request"] |= {"after": fingerprints[after], "same": ["system", "no such key"], "same_messages": 10**9}
    for file, value in written.items():
        file.write_text(json.dumps(value))
    session = Cassette(tmp_path, "replay").session(places())
    for texts in (("go",), ("go", "ok", "a")):
        assert session.find(asking(talk(*texts))) is not None
    assert "differs" in ask(session, talk("go", "ok", "a", "ok", "c")).summary
