"""Which answer each session gets, with concurrent sessions and repeated requests."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from cassette_helpers import HERE, THERE, asking, keep_text, messages, places, text_of

from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.cassette.matching import ModelRequest

GO = asking(messages("go"))


def takes(directory: Path, *recorded: list[str]) -> None:
    """What each of several trials was answered to the same request."""
    cassette = Cassette(directory, "record")
    for answers in recorded:
        session = cassette.session(places())
        for number, answer in enumerate(answers):
            keep_text(session, GO, answer, ms=len(answer) * 100 + number + recorded.index(answers))


def test_the_same_request_again_gets_the_next_answer(tmp_path: Path) -> None:
    takes(tmp_path, ["one", "two", "three"])
    session = Cassette(tmp_path, "replay").session(places())
    assert [text_of(session.find(GO)) for _ in range(5)] == ["one", "two", "three", "three", "three"]


def test_each_session_starts_from_the_first_answer(tmp_path: Path) -> None:
    takes(tmp_path, ["one", "two"])
    cassette = Cassette(tmp_path, "replay")
    first, second = cassette.session(places()), cassette.session(places(THERE))
    assert [text_of(s.find(GO)) for s in (first, second, first, second)] == ["one", "one", "two", "two"]


def test_diverging_trials_are_all_replayed(tmp_path: Path) -> None:
    """Three trials of one task are three again, and a fourth begins with the first."""
    takes(tmp_path, ["a", "a2"], ["b"], ["c"])
    cassette = Cassette(tmp_path, "replay")
    sessions = [cassette.session(places()) for _ in range(4)]
    assert [text_of(session.find(GO)) for session in sessions] == ["a", "b", "c", "a"]
    assert [text_of(session.find(GO)) for session in sessions] == ["a2", "b", "c", "a2"]


def test_sessions_without_this_request_do_not_count(tmp_path: Path) -> None:
    """A judge has a key of its own, between those of the trials."""
    takes(tmp_path, ["a"], ["b"])
    cassette = Cassette(tmp_path, "replay")
    trial, _judge, other_trial = (cassette.session(places()) for _ in range(3))
    assert [text_of(session.find(GO)) for session in (trial, other_trial)] == ["a", "b"]


def test_trials_with_equal_answers_are_stored_once(tmp_path: Path) -> None:
    takes(tmp_path, ["id toolu_01aaaaaaaaaaaa00000000"], ["id toolu_01bbbbbbbbbbbb00000000", "two"], ["x"])
    (file,) = Cassette(tmp_path, "replay").store.files()
    assert [len(take) for take in Cassette(tmp_path, "replay").store.read(file).trials] == [2, 1]


def test_recording_again_replaces(tmp_path: Path) -> None:
    takes(tmp_path, ["old"], ["older"])
    takes(tmp_path, ["new"])
    cassette = Cassette(tmp_path, "replay")
    assert [text_of(cassette.session(places()).find(GO)) for _ in range(2)] == ["new", "new"]


def test_recording_never_answers(tmp_path: Path) -> None:
    takes(tmp_path, ["one"])
    cassette = Cassette(tmp_path, "record")
    session = cassette.session(places())
    assert session.find(GO) is None
    keep_text(session, GO, "again")
    assert session.find(GO) is None
    assert cassette.recorded == 1


def test_auto_replays_recordings_and_records_the_rest(tmp_path: Path) -> None:
    takes(tmp_path, ["one"])
    cassette = Cassette(tmp_path, "auto")
    session = cassette.session(places())
    other = asking(messages("go", "one", "on"))
    assert text_of(session.find(GO)) == "one"
    assert session.find(other) is None
    keep_text(session, other, "two")
    assert session.find(other) is None, "asked again, and answered by the model before: so once more"
    keep_text(session, other, "three")
    again = cassette.session(places())
    assert [text_of(again.find(asked)) for asked in (GO, other, other)] == ["one", "two", "three"]
    assert (cassette.recorded, session.recorded, again.recorded) == (2, 2, 0)
    later = Cassette(tmp_path, "replay").session(places())
    assert [text_of(later.find(asked)) for asked in (GO, other, other)] == ["one", "two", "three"]


def test_replaying_writes_nothing(tmp_path: Path) -> None:
    takes(tmp_path, ["one"])
    cassette = Cassette(tmp_path, "replay")
    keep_text(cassette.session(places()), asking(messages("other")), "two")
    assert len(cassette.store.files()) == 1
    assert cassette.recorded == 0


def test_each_trial_has_its_own_paths(tmp_path: Path) -> None:
    keep_text(Cassette(tmp_path, "record").session(places()), asking(messages(f"in {HERE}")), f"see {HERE}/a")
    cassette = Cassette(tmp_path, "replay")
    for where in (THERE, Path("/third/place")):
        assert text_of(cassette.session(places(where)).find(asking(messages(f"in {where}")))) == f"see {where}/a"


def test_a_changed_task_is_not_answered(tmp_path: Path) -> None:
    task = "Set the timeout to {}, effective {}, for the task ID {}"
    keep_text(
        Cassette(tmp_path, "record").session(places()),
        asking(messages(task.format("30 seconds", "2026-01-01", "invoices"))),
        "done",
    )
    session = Cassette(tmp_path, "replay").session(places())
    changed = asking(messages(task.format("5 minutes", "1999-12-31", "customers")))
    assert session.find(changed) is None
    found = session.mismatch(changed)
    for word in ("30 seconds", "2026-01-01", "invoices", "5 minutes", "1999-12-31", "customers"):
        assert word in found.text
    assert "Set the timeout to 5 minutes" in found.summary


def test_on_another_day(tmp_path: Path) -> None:
    """The agent says what day it is. The task names a date too, which was the day's when it was recorded."""

    def asked(day: date, released: str = "2026-11-16", task: str = "Release it") -> ModelRequest:
        return asking(messages(f"{task}, dated {released}.", system=f"Today's date: {day}"))

    first, later = date(2026, 11, 16), date(2027, 5, 1)
    keep_text(Cassette(tmp_path, "record", today=lambda: first).session(places()), asked(first), "done")
    session = Cassette(tmp_path, "replay", today=lambda: later).session(places())
    assert text_of(session.find(asked(later))) == "done"
    assert session.find(asked(later, "2026-10-01")) is None
    assert session.find(asked(date(2025, 1, 1))) is None
    difference = [line for line in session.mismatch(asked(later, "2026-10-01")).text.splitlines() if line[0:1] == "+"]
    assert difference == ["+++ now", "+    content: Release it, dated 2026-10-01."]
    assert "+    content: Withdraw it, dated {{date}}." in session.mismatch(asked(later, task="Withdraw it")).text
