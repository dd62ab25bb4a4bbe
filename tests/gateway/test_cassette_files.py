"""A cassette as a directory: its contents, concurrent writers, and damage."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cassette_helpers import (
    HERE,
    JSON,
    SSE,
    THERE,
    asking,
    everything_in,
    keep_text,
    messages,
    places,
    said,
    sse,
    text_of,
)

from systems import ON_WINDOWS
from youbencha.errors import YouBenchaError
from youbencha.gateway.cassette import store
from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.cassette.matching import ModelRequest
from youbencha.gateway.cassette.store import MAX_FILE_BYTES
from youbencha.process import Redactor

SECRET = "correct-horse-battery-staple"
KEY = "sk-ant-api03-0123456789abcdefghij"


def files(directory: Path) -> list[str]:
    return sorted(file.name for file in (directory / "exchanges").iterdir())


def record(directory: Path, *texts: str, mode: Any = "record") -> None:
    session = Cassette(directory, mode).session(places())
    for text in texts:
        keep_text(session, asking(messages(text)), f"to {text}")


def answer(directory: Path, text: str) -> str:
    return text_of(Cassette(directory, "replay").session(places()).find(asking(messages(text))))


def test_contents_of_a_recording(tmp_path: Path) -> None:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b", "x-api-key": KEY, "user-agent": "me"}
    asked = asking(messages(f"in {HERE}"))._replace(headers=headers)
    session = Cassette(tmp_path, "record", today=lambda: date(2026, 11, 16)).session(places())
    session.keep(asked, 200, {**JSON, "request-id": "r"}, [(5.4, said("hi"))])
    (name,) = files(tmp_path)
    written = json.loads((tmp_path / "exchanges" / name).read_text())
    assert name == f"claude-test-001-{written.pop('fingerprint')[:12]}.json"
    body = {"max_tokens": 1000, "messages": [{"content": "in {{workspace}}", "role": "user"}], "model": "claude-test"}
    assert written == {
        "version": 4,
        "day": "2026-11-16",
        "request": {
            "method": "POST",
            "path": "/v1/messages",
            "wire": "anthropic-messages",
            "headers": {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"},
            "body": body,
        },
        "takes": [[{"status": 200, "headers": JSON, "ms": 5, "json": json.loads(said("hi"))}]],
    }


def test_recordings_are_readable_line_by_line(tmp_path: Path) -> None:
    """For people and for `git diff`: an event is a line, and so is a line of a long text."""
    events = [{"type": "message_start"}, {"type": "ping", "number": 7}, {"type": "message_stop"}]
    asked = asking(messages("\n".join(f"line {number} of the instructions" for number in range(100))))
    Cassette(tmp_path, "record").session(places()).keep(asked, 200, SSE, [(1.0, sse(events))])
    (exchange,) = (tmp_path / "exchanges").iterdir()
    lines = exchange.read_text().splitlines()
    assert any(line.strip() == '{"ms":1,"data":{"type":"ping","number":7}},' for line in lines)
    assert '"line 99 of the instructions"' in map(str.strip, lines)


def test_no_secret_is_written(tmp_path: Path) -> None:
    headers = {"x-api-key": SECRET, "authorization": f"Bearer {SECRET}", "anthropic-beta": "b", "cookie": SECRET}
    session = Cassette(tmp_path, "record", redactor=Redactor([SECRET])).session(places())
    asked = asking(messages(f"env says {SECRET}", f"and {KEY}", system="x " * 600 + SECRET))._replace(headers=headers)
    keep_text(session, asked, f"you said {SECRET} and {KEY}")
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}
    parts = [
        {**delta, "delta": {"type": "text_delta", "text": part}}
        for part in (SECRET[:9], SECRET[9:], " ", KEY[:8], KEY[8:])
    ]
    events = [{"type": "message_start"}, *parts, {"type": "message_stop"}]
    session.keep(asking(messages("b")), 200, {**SSE, "set-cookie": SECRET}, [(1.0, sse(events))])
    session.keep(asking(messages("c")), 200, {"content-type": "text/plain"}, [(1.0, SECRET.encode())])
    session.keep(asking(messages("d")), 200, {"content-type": "x/y"}, [(1.0, b"\xff" + SECRET.encode())])
    assert session.recorded == 4
    everything = everything_in(tmp_path)
    assert b"[REDACTED]" in everything
    for secret in (SECRET, KEY):
        assert secret.encode() not in everything
        assert secret[9:].encode() not in everything
    # With another key in the environment, it is still the same request.
    again = Cassette(tmp_path, "replay", redactor=Redactor(["another-secret-altogether"])).session(places())
    other = asking(
        messages("env says another-secret-altogether", f"and {KEY}x", system="x " * 600 + "another-secret-altogether")
    )
    assert text_of(again.find(other)) == "you said [REDACTED] and [REDACTED]"


def test_no_local_path_is_written(tmp_path: Path) -> None:
    session = Cassette(tmp_path, "record").session(places())
    keep_text(session, asking(messages(f"in {HERE}/a", tools=[{"name": f"{HERE}"}])), f"wrote {HERE}/b")
    assert b"/rec/" not in everything_in(tmp_path)


def test_a_conversation_grows_linearly(tmp_path: Path) -> None:
    """Not for the square of it, though an agent sends everything again with each turn."""
    system = "\n".join(f"Rule {number}: be careful, and think twice." for number in range(1000))
    tools = [{"name": f"Tool{number}", "description": "It does. " * 60} for number in range(20)]

    def size_after(turns: int) -> int:
        directory = tmp_path / str(turns)
        session = Cassette(directory, "record").session(places())
        said_so_far: list[str] = []
        for turn in range(turns):
            said_so_far.append(f"result {turn}: " + f"output line of {turn}\n" * 40)
            asked = asking(messages(*said_so_far, system=system, tools=tools))
            keep_text(session, asked, f"answer {turn}")
            said_so_far.append(f"answer {turn}, and call number {turn} of a tool")
        return len(everything_in(directory))

    few, many = size_after(20), size_after(60)
    sent = len(system) + len(json.dumps(tools)) + 20 * 1000
    assert few < 2.5 * sent  # sent were 20 times the system and the tools, and half a megabyte of talk
    growth, first = many - few, few - size_after(1)
    assert growth < 2 * first * 40 / 19


def test_file_names_do_not_matter(tmp_path: Path) -> None:
    record(tmp_path, "one")
    (file,) = (tmp_path / "exchanges").iterdir()
    file.rename(file.with_name("the first question.json"))
    assert answer(tmp_path, "one") == "to one"


def test_two_cassettes_are_merged_by_copying(tmp_path: Path) -> None:
    record(tmp_path / "a", "one", "both")
    record(tmp_path / "b", "two", "both")
    shutil.copytree(tmp_path / "a", tmp_path / "b", dirs_exist_ok=True)
    assert [answer(tmp_path / "b", text) for text in ("one", "two", "both")] == ["to one", "to two", "to both"]
    assert len(files(tmp_path / "b")) == 3


def _record_many(directory: Path, name: str) -> None:
    long = "shared\n" * 500
    session = Cassette(directory, "record").session(places())
    for number in range(20):
        keep_text(session, asking(messages(f"{name} {number}", system=long)), f"{name} to {number}")
        keep_text(session, asking(messages(f"both {number}", system=long)), f"both to {number}")


def test_two_concurrent_recorders(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_record_many, args=(tmp_path, name)) for name in ("one", "two")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(files(tmp_path)) == 60
    session = Cassette(tmp_path, "replay").session(places())
    for name in ("one", "two", "both"):
        for number in range(20):
            asked = asking(messages(f"{name} {number}", system="shared\n" * 500))
            assert text_of(session.find(asked)) == f"{name} to {number}"


def _record_over_and_over(directory: Path) -> None:
    session = Cassette(directory, "record").session(places())
    while True:
        keep_text(session, asking(messages("go")), "some words " * 2_000)


def test_a_killed_recorder_leaves_complete_files(tmp_path: Path) -> None:
    """Readers find complete files, during the recording and after the kill."""
    record(tmp_path, "go")
    process = multiprocessing.get_context("spawn").Process(target=_record_over_and_over, args=(tmp_path,))
    process.start()
    try:
        lengths: set[int] = set()
        while len(lengths) < 5:  # each time there is one answer more
            (exchange,) = (
                Cassette(tmp_path, "replay").store.read(file) for file in (tmp_path / "exchanges").glob("c*")
            )
            lengths.add(len(exchange.trials[0]))
    finally:
        process.kill()
        process.join(60)
    assert Cassette(tmp_path, "replay").session(places()).find(asking(messages("go"))) is not None


def test_temporary_files_are_ignored(tmp_path: Path) -> None:
    record(tmp_path, "one")
    (tmp_path / "exchanges" / ".claude-test-001-aaaaaaaaaaaa.json.0a1b2c3d").write_text("{")
    (tmp_path / "exchanges" / "README.md").write_text("about these")
    assert answer(tmp_path, "one") == "to one"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not JSON"),
        ("", "is not JSON"),
        ("[]", "is not a recording"),
        ('{"version": 4}', "fingerprint: Field required"),
        ('{"version": 5}', "newer youBencha"),
    ],
)
@pytest.mark.parametrize("mode", ["replay", "auto"])
def test_a_broken_file_is_named(tmp_path: Path, content: str, complaint: str, mode: Any) -> None:
    record(tmp_path, "one", "two")
    broken = tmp_path / "exchanges" / files(tmp_path)[0]
    broken.write_text(content)
    with pytest.raises(YouBenchaError, match=complaint) as error:
        Cassette(tmp_path, mode)
    assert error.value.code == "CASSETTE_BROKEN"
    assert str(broken) in error.value.message
    assert files(tmp_path)[1] not in error.value.message


def _answer(**changes: Any) -> Callable[[Path], None]:
    """Change the recorded answer."""

    def change(file: Path) -> None:
        value = json.loads(file.read_text())
        value["takes"][0][0].update(changes)
        file.write_text(json.dumps(value))

    return change


def _exchange(**changes: Any) -> Callable[[Path], None]:
    return lambda file: _write(file, json.dumps({**json.loads(file.read_text()), **changes}))


def _write(file: Path, text: str) -> None:
    file.write_text(text)


def _link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


def _linked_directory(file: Path) -> None:
    file.parent.rename(file.parent.parent.parent / "outside")
    file.parent.symlink_to(file.parent.parent.parent / "outside")


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _device(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def _too_large(file: Path) -> None:
    with file.open("ab") as opened:
        opened.truncate(MAX_FILE_BYTES + 1)


def _escape_in_a_name(file: Path) -> None:
    file.rename(file.with_name("\x1b[2J.json")).write_text("{")


def _too_many(file: Path) -> None:
    for number in range(store.MAX_FILES):
        (file.parent / f"{number}.json").touch()


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "link": (_link, "is a link"),
    "link to a device": (_device, "is a link"),
    "directory elsewhere": (_linked_directory, "is a link"),
    "pipe": (_pipe, "is not a regular file"),
    "escape in a name": (_escape_in_a_name, "is not JSON"),
    "too large": (_too_large, "is larger than"),
    "too many files": (_too_many, "more than"),
    "deeply nested": (_answer(json=functools.reduce(lambda inner, _: [inner], range(200), 0)), "nested more than"),
    "very deeply nested": (lambda file: _write(file, "[" * 200_000), "nested too deeply"),
    "status 99": (_answer(status=99), "status: Input should be greater than or equal to 200"),
    "status 101": (_answer(status=101), "status: Input should be greater"),
    "status 600": (_answer(status=600), "status: Input should be less"),
    "status true": (_answer(status=True), "status: Input should be a valid integer"),
    "split header": (_answer(headers={"content-type": "a\r\nx: y"}), "headers.content-type"),
    "header with a line end": (_answer(headers={"content-type": "text/plain\n"}), "headers.content-type"),
    "failure with an escape": (_answer(failed="\x1b[2J"), "failed: "),
    "hop by hop": (_answer(headers={"connection": "close"}), "headers.connection"),
    "length": (_answer(headers={"content-length": "5"}), "headers.content-length"),
    "encoding": (_answer(headers={"content-encoding": "gzip"}), "headers.content-encoding"),
    "endless": (_answer(ms=1e12), "ms: "),
    "before": (_answer(ms=-1), "ms: "),
    "event without time": (_answer(events=[{"data": 1}]), "events.0.ms"),
    "endless event": (_answer(events=[{"ms": 10**15, "data": 1}]), "events.0.ms"),
    "event with a number as name": (_answer(events=[{"ms": 1, "data": 1, "event": 7}]), "events.0.event"),
    "text that is none": (_answer(text=[1]), "text: "),
    "no answer": (_exchange(takes=[[]]), "takes.0"),
    "no trial": (_exchange(takes=[]), "takes: "),
    "answers that are none": (_exchange(takes=[["x"]]), "takes.0.0"),
    "unknown API": (
        _exchange(request={"method": "POST", "path": "/", "body": 1, "wire": "x"}),
        "request.wire",
    ),
    "request that is none": (_exchange(request=[]), "request: "),
    "last day": (_exchange(day="9999-12-31"), "day: "),
    "fingerprint that is a path": (_exchange(fingerprint="../../x"), "fingerprint: "),
}


@pytest.mark.skipif(ON_WINDOWS, reason="pipes and links are POSIX here")
@pytest.mark.parametrize("mode", ["replay", "auto"])
@pytest.mark.parametrize(("harm", "complaint"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_cassette_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None], complaint: str, mode: Any
) -> None:
    """A cassette may come from a stranger. Nothing outside is read or written, and nothing is waited for."""
    monkeypatch.setattr(store, "MAX_FILES", 50)
    directory = tmp_path / "cassette"
    record(directory, "one")
    (file,) = (directory / "exchanges").iterdir()
    harm(file)
    with pytest.raises(YouBenchaError) as error:
        Cassette(directory, mode)
    assert error.value.code == "CASSETTE_BROKEN"
    assert complaint in error.value.message
    assert str(directory / "exchanges") in error.value.message
    assert error.value.hint is not None
    assert len(error.value.message) < 1000
    assert "root:" not in error.value.message
    assert "\x1b" not in error.value.message


@pytest.mark.skipif(ON_WINDOWS, reason="needs a right of its own there")
@pytest.mark.parametrize("mode", ["record", "auto"])
def test_nothing_is_written_through_a_link(tmp_path: Path, mode: Any) -> None:
    for directory in ("cassette", "outside"):
        (tmp_path / directory).mkdir()
    (tmp_path / "cassette" / "exchanges").symlink_to(tmp_path / "outside")
    with pytest.raises(YouBenchaError, match="exchanges is a link"):
        record(tmp_path / "cassette", "long " * 400, mode=mode)
    assert not list((tmp_path / "outside").iterdir())


def test_what_is_too_large_to_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("youbencha.gateway.cassette.store.MAX_FILE_BYTES", 2000)
    with pytest.raises(YouBenchaError, match="more than 2,000 bytes"):
        record(tmp_path, "go " * 1000)


def test_an_answer_that_is_broken_inside(tmp_path: Path) -> None:
    record(tmp_path, "one")
    (file,) = (tmp_path / "exchanges").iterdir()
    value = json.loads(file.read_text())
    del value["takes"][0][0]["json"]
    file.write_text(json.dumps(value))
    with pytest.raises(YouBenchaError, match=file.name[-17:-5]):
        answer(tmp_path, "one")


def test_recording_over_a_broken_file(tmp_path: Path) -> None:
    record(tmp_path, "one")
    (tmp_path / "exchanges" / files(tmp_path)[0]).write_text("{")
    record(tmp_path, "one")
    assert answer(tmp_path, "one") == "to one"


@pytest.mark.parametrize("make", [False, True], ids=["missing", "empty"])
def test_nothing_to_replay(tmp_path: Path, make: bool) -> None:
    directory = tmp_path / "none"
    if make:
        directory.mkdir()
    with pytest.raises(YouBenchaError, match="nothing to replay") as error:
        Cassette(directory, "replay")
    assert error.value.code == "CASSETTE_NOT_FOUND"
    assert str(directory) in error.value.message
    assert Cassette(directory, "auto").session(places()).find(asking(messages("one"))) is None


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(YouBenchaError, match="Cannot write the cassette"):
        Cassette(tmp_path / "file", "record")


def _removed(exchanges: Path) -> None:
    shutil.rmtree(exchanges.parent)


def _a_file(exchanges: Path) -> None:
    shutil.rmtree(exchanges.parent)
    exchanges.parent.write_text("")


def _a_directory_of_that_name(exchanges: Path) -> None:
    (file,) = exchanges.iterdir()
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("harm", [_removed, _a_file, _a_directory_of_that_name])
def test_a_cassette_that_can_no_longer_be_written(tmp_path: Path, harm: Any) -> None:
    directory = tmp_path / "cassette"
    session = Cassette(directory, "record").session(places())
    keep_text(session, asking(messages("one")), "fine")
    harm(directory / "exchanges")
    with pytest.raises(YouBenchaError, match="Cannot write the cassette") as error:
        keep_text(session, asking(messages("one")), "fine")
    assert error.value.code == "CASSETTE_NOT_WRITABLE"
    assert str(directory) in error.value.message
    assert session.recorded == 1


def test_a_cassette_on_a_full_disk(tmp_path: Path) -> None:
    """As on a full disk: a file is begun, but not finished. Nothing is left of it, and what was there stays."""
    resource = pytest.importorskip("resource")
    session = Cassette(tmp_path, "record").session(places())
    keep_text(session, asking(messages("one")), "fine")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(YouBenchaError, match="Cannot write the cassette"):
            keep_text(session, asking(messages("one")), "two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files(tmp_path) == [file.name for file in Cassette(tmp_path, "replay").store.files()]
    assert answer(tmp_path, "one") == "fine"


def test_another_model_name_is_a_plain_file_name(tmp_path: Path) -> None:
    asked = ModelRequest(
        "POST", "/v1/chat/completions", "openai-chat", {}, {"model": "../../a b/c:free", "messages": []}
    )
    keep_text(Cassette(tmp_path, "record").session(places(THERE)), asked, "hi")
    assert files(tmp_path)[0].startswith("a-b-c-free-000-")


def test_a_huge_id_cannot_be_repeated_without_end(tmp_path: Path) -> None:
    """The first answer makes the agent send a huge id, which the second repeats."""
    huge = "see " + "0a" * 500_000
    asked = asking(messages("do it", huge, "go on"))
    keep_text(Cassette(tmp_path, "record").session(), asked, "{{id-1}}")
    (file,) = (tmp_path / "exchanges").iterdir()
    file.write_text(file.read_text().replace("{{=id-1}}", "{{id-1}}" * 1000))
    with pytest.raises(YouBenchaError, match="placeholders become too large"):
        Cassette(tmp_path, "replay").session().find(asked)
