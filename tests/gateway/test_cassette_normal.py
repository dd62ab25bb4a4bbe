"""Which requests count as equal, and which do not."""

from __future__ import annotations

import copy
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cassette_helpers import HERE, HOME, THERE, asking, messages, places

from youbencha.gateway.cassette.matching import CanonicalRequest, Places, RequestMatcher, path_forms
from youbencha.gateway.cassette.volatile import around
from youbencha.process import Redactor

DAY = date(2026, 11, 16)
LATER = date(2027, 5, 1)


def normal(
    body: object, where: Places | None = None, path: str = "/v1/messages", today: date = DAY, **more: Any
) -> CanonicalRequest:
    asked = asking(body, path)._replace(**more)
    return RequestMatcher(path_forms(where or places()), Redactor()).canonical(asked, around(today))


def text_of(body: object, where: Places | None = None) -> str:
    found = normal(body, where).body
    assert isinstance(found, dict)
    return str(found["messages"][0]["content"])


def shown(text: str) -> str:
    return text_of(messages(text))


def result(text: object) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t", "content": text}
    return {"messages": [{"role": "user", "content": [block]}]}


SAME_ANYWHERE = [
    # what changes from one run to the next, as real agents print it
    (" - OS Version: Linux 6.18.44-fc-v445\n", " - OS Version: Linux 5.4\n"),
    ("commit 9bdf79c0213ea872bdaed00caa43c3db852a4df5", "commit a8f94a73477971d14d2a228b68d0094a2a6da9b4"),
    ("Recent commits:\nabadbfe first\n", "Recent commits:\n1234567 first\n"),
    ("Recent commits:\nabadbfe first\n", "Recent commits:\n0ff1ce7 first\n"),
    ("agentId: ab56c6a7cee36ac94 (internal", "agentId: aa456295c05ba2c9c (internal"),
    ("agentId: 287044ad (for", "agentId: deadbee5 (for"),
    ("Chunk ID: dead18\nWall", "Chunk ID: 123456\nWall"),
    ("/x/0fb42872-4d55-40d3-9c3c-7d0bf3304be3/y", "/x/0c416d98-c44f-41d6-90cb-651b6ee2c25f/y"),
    ("see /tmp/tmp.5qoEtiAXx8", "see /tmp/tmp.yzEMCYHuTi"),
    ("at /tmp/youbencha-dsvmjsop/.gemini", "at /tmp/youbencha-8pn0l7vu/.gemini"),
    ("/tmp/1794796370173-copilot-tool-output-30390-x.txt", "/tmp/1794796375292-copilot-tool-output-4-x.txt"),
    ("tool-output/tool_1e232db9b0013tFBgAJyBUFYxl", "tool-output/tool_1e232fe230014HDKiWjA3ll9ww"),
    (".youbencha-workspace/run-2026-11-16-023149-0ad713/", ".youbencha-workspace/run-2027-01-01-000000-ffffff/"),
    (
        ".youbencha-workspace/run-2026-11-16-023149-0ad7130ad713/",
        ".youbencha-workspace/run-2027-01-01-000000-ffffffffffff/",
    ),
    ("x-anthropic-billing-header: cc_version=2.1; cch=00a1b;\nyou", "x-anthropic-billing-header: cch=ff;\nyou"),
    ("background with ID: 9b45c4\n", "background with ID: 1bcdef\n"),
]
SAME_IN_OUTPUT = [
    (" - Today's date: 2026-11-16.", " - Today's date: 2027-01-02."),
    ("Today's date is Monday, November 16, 2026 (as", "Today's date is Friday, May 1, 2027 (as"),
    ("<current_datetime>2026-11-16T02:32:49.877+00:00<", "<current_datetime>2027-01-16T12:32:49.1Z<"),
    ("Mon Nov 16 02:31:51 UTC 2026\n", "Tue Dec  1 12:01:00 UTC 2026\n"),
    ("Date:   Mon Nov 16 02:31:49 2026 +0000", "Date:   Sun Jan 3 12:31:49 2027 +0200"),
    ("-rw-r--r-- 1 root root 7 Nov 16 02:31 README.md", "-rw-r--r-- 1 root root 7 Nov 16  2026 README.md"),
    ("total 24\ndrwxr-xr-x  5 root root 4096 Nov 16 02:31 .", "total 4.0K\ndrwxr-xr-x 12 me  my 384K Nov 16 02:31 ."),
    ("date: 11/16/2026, 02:31:07 AM", "date: 1/2/2027, 12:01:07 PM"),
    ("1 passed in 0.12s ======", "1 passed in 10.52s ====="),
    ("real\t0m0.012s", "real\t1m10.512s"),
    ("Wall time: 0.0000 seconds", "Wall time: 1.5 seconds"),
    ("took 12 ms", "took 130 ms"),
    ("http://127.0.0.1:45855/x", "http://127.0.0.1:43025/x"),
    ("9bdf79c done\nabadbfe first", "1234567 done\n7654321 first"),
    ("running in background with ID: 9b45c4\n", "running in background with ID: abcdef\n"),
    ("Original token count: 123\n", "Original token count: 1280\n"),
    ("run_shell_command_1794796359243_0", "run_shell_command_1794796363420_0"),
    ("Process Group PGID: 30301", "Process Group PGID: 112"),
    ("S=/tmp/cc-socks/28954.sock", "S=/tmp/cc-socks/290.sock"),
    ("1794796359.8574145", "1794796412.378"),
    ('{"out": "a\\n0.52s\\n2026-11-16"}', '{"out": "a\\n1.2s\\n2027-11-16"}'),
    ("<task-id>bxzqwvtrp</task-id>", "<task-id>bkjhgfdsa</task-id>"),
    ("see tasks/bxzqwvtrp.output", "see tasks/bkjhgfdsa.output"),
    ("see x/tool-results/bhacpcnvj.txt", "see x/tool-results/bkjhgfdsa.txt"),
    ("# duration_ms 56.756756", "# duration_ms 9"),
    ('{"duration_ms": 210, "n": 5}', '{"duration_ms": 2.5, "n": 5}'),
    ('{\\"totalDurationMs\\":210}', '{\\"totalDurationMs\\":9}'),
    ("<usage><duration_ms>2104</duration_ms></usage>", "<usage><duration_ms>390</duration_ms></usage>"),
    ("<testcase name='a' time='0.173'/>", "<testcase name='a' time='2.01'/>"),
    ("elapsed: 0.214", "elapsed: 12.5"),
    ("real 2.14\nuser 1.07\nsys 0.10", "real 0.04\nuser 0.01\nsys 0.02"),
    ("1,214.5 ms", "3 ms"),
    ("rss 214000 KB, 214 ops/sec, 1.5 MB/s", "rss 9 KB, 7.1 ops/sec, 20 MB/s"),
    ("Listening on port 48093, tcp :48093", "Listening on port 39111, tcp :39111"),
    ('{"port": 48093}', '{"port": 51002}'),
    ("laddr=('127.0.0.1', 48093)", "laddr=('127.0.0.1', 51002)"),
    ("LISTEN *:48093 [::]:48093", "LISTEN *:51002 [::]:51002"),
    ("<Cart object at 0x7f7352d86450>", "<Cart object at 0x7f94184ce510>"),
    ("/tmp/pytest-of-root/pytest-21/test_a0", "/tmp/pytest-of-root/pytest-9/test_a0"),
]
SAME_ON_ANOTHER_DAY = [
    (" - Today's date: 2026-11-16.", " - Today's date: 2027-05-01."),
    ("Today's date is Monday, November 16, 2026 (as", "Today's date is Saturday, May 1, 2027 (as"),
    ("<current_datetime>2026-11-16T02:32:49.877+00:00<", "<current_datetime>2027-05-02T12:32:49.1Z<"),
    ("date: 11/16/2026, 02:31:07 AM", "date: 5/1/2027, 12:01:07 PM"),
    ("date: 16/11/2026", "date: 01/05/2027"),
    ("date: 16.11.2026", "date: 1.5.2027"),
    ("Today is Mon Nov 16 2026", "Today is Sat May 01 2027"),
    ("now: Mon Nov 16 2026 02:31:07 GMT+0000 (Coordinated Universal Time)", "now: Sat May 1 2027 12:01:00 GMT+0200"),
    ("now: Mon Nov 16 02:31:51 UTC 2026\n", "now: Sat May  1 12:01:00 CEST 2027\n"),
    ("now: Mon, 16 Nov 2026 02:31:51 GMT", "now: Fri, 30 Apr 2027 23:59:00 GMT"),
    ("on November 16th, 2026 at 2:31 PM.", "on May 1st, 2027 at 12:00 AM."),
    ("run_shell_command_1794796359243_0", "run_shell_command_1809129600000_0"),
    ("1794796359.8574145", "1809129600.378"),
    ("The current month is November 2026.", "The current month is May 2027."),
    ("The current year is 2026.", "The current year is 2027."),
]
CHANGED = [
    ("Set the timeout to 30 seconds", "Set the timeout to 5 minutes"),
    ("effective 2026-01-01", "effective 1999-12-31"),
    ("on January 1, 2026", "on December 31, 1999"),
    ("on 1/1/2026", "on 12/31/1999"),
    ("at 10:30 every day", "at 22:45 every day"),
    ("born 1 Jan 1970", "born 2 Feb 1980"),
    ("for the task ID invoices", "for the task ID customers"),
    ("call it with ID instead", "call it with ID alone12"),
    ("kill the process 4711", "kill the process 4712"),
    ("since 1600000000", "since 1600000001"),
    ("since 1600000000000", "since 1600000000001"),
    ("listen on localhost:8080", "listen on localhost:9090"),
    ("listen on 127.0.0.1:8080", "listen on 127.0.0.1:9090"),
    ("rename item_total_2", "rename item_price_2"),
    ("write /tmp/all-invoices", "write /tmp/all-customers"),
    ("write /tmp/report2.txt", "write /tmp/report3.txt"),
    ("for Linux 5.4.0", "for Linux 6.1.0"),
    ("1234567 apples", "7654321 apples"),
    ("a line\n1234567 apples", "a line\n7654321 apples"),
    ("heading\n=====", "heading\n======="),
]
OTHER = [
    ("seq 1 10", "seq 1 11"),
    ("TAX = 0.19", "TAX = 0.2"),
    ("src/prices.py:12:34", "src/prices.py:12:35"),
    ("exit code 1", "exit code 2"),
    ("total 3 files", "total 4 files"),
    ("-rw-r--r-- by hand 1", "-rw-r--r-- by hand 2"),
    ("/tmp/test.py", "/tmp/other.py"),
    ("v2.1.325", "v2.1.326"),
    ("HTTP 200", "HTTP 404"),
    ("call_me_maybe", "call_me_perhaps"),
    ("timeout: 30", "timeout: 60"),
    ("it was tried 3 times 4", "it was tried 3 times 5"),
    ("port: 8080", "port: 9090"),
    ("0xdeadbeef", "0xcafebabe"),
    ("coverage 85%", "coverage 12%"),
    ("3 passed in 0.5s", "2 passed in 0.5s"),
    ("the user 7", "the user 8"),
]


@pytest.mark.parametrize(("one", "other"), SAME_ANYWHERE)
def test_equal_texts(one: str, other: str) -> None:
    assert shown(one) == shown(other)
    assert shown(one) != one
    assert normal(messages(one)).fingerprint == normal(messages(other)).fingerprint


@pytest.mark.parametrize(("one", "other"), [*SAME_ANYWHERE, *SAME_IN_OUTPUT])
def test_equal_tool_results(one: str, other: str) -> None:
    assert normal(result(one)).fingerprint == normal(result(other)).fingerprint
    blocks = ([{"type": "text", "text": text}, {"type": "text", "text": ""}] for text in (one, other))
    assert len({normal(result(block)).fingerprint for block in blocks}) == 1


@pytest.mark.parametrize(("one", "other"), [*OTHER, *CHANGED])
def test_different_texts(one: str, other: str) -> None:
    """Neither in user text, nor in instructions, nor in model text, nor in a tool's description."""
    for text in (one, other):
        assert shown(text) == text or "alone12" in text
    for body in (
        lambda text: messages(text),
        lambda text: messages("go", system=text),
        lambda text: messages("go", text),
        lambda text: messages("go", tools=[{"name": "Bash", "description": text}]),
        lambda text: {"input": [{"type": "function_call", "arguments": text}]},
    ):
        assert normal(body(one)).fingerprint != normal(body(other)).fingerprint


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_different_tool_results(one: str, other: str) -> None:
    assert normal(result(one)).fingerprint != normal(result(other)).fingerprint


@pytest.mark.parametrize(("one", "other"), SAME_ON_ANOTHER_DAY)
def test_the_current_date(one: str, other: str) -> None:
    """The current date is replaced. Another date on the same day is ordinary text."""
    for body in (lambda text: messages(text), lambda text: messages("go", system=[{"type": "text", "text": text}])):
        assert normal(body(one)).fingerprint == normal(body(other), today=LATER).fingerprint
        assert normal(body(one)).fingerprint != normal(body(other)).fingerprint


def test_model_text_is_not_normalized() -> None:
    """Also a date that was the day's, on another day."""
    said = messages("go", "I wrote 2026-11-16 into it.")
    assert normal(said).fingerprint == normal(said, today=LATER).fingerprint


OUTPUTS = [
    lambda text: {"messages": [{"role": "tool", "tool_call_id": "c", "content": text}]},
    lambda text: {"input": [{"type": "function_call_output", "call_id": "c", "output": text}]},
    lambda text: {"input": [{"type": "custom_tool_call_output", "call_id": "c", "output": [{"text": text}]}]},
    lambda text: {
        "contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": text}}}]}]
    },
    lambda text: messages(f"Hi.\n<system-reminder>\nThe hook says: {text}\n</system-reminder>"),
    lambda text: messages("go", system=f"<env>\n{text}\n</env>\nBe careful."),
    lambda text: messages("go", system=f"gitStatus: This is the status.\n{text}\n\nRecent commits:\n9bdf79c {text}"),
    lambda text: messages(f"I ran this command:\n\nmake\n\nAnd got this output:\n\n{text}\n"),
]


@pytest.mark.parametrize("body", OUTPUTS)
def test_tool_output_of_each_api(body: Any) -> None:
    texts = ("done in 0.5s, 2025-03-04 10:00, pid 411", "done in 12s, 2024-01-31 12:31, pid 57")
    first, second = (normal(body(text)) for text in texts)
    assert first.fingerprint == second.fingerprint
    assert first.fingerprint != normal(body(texts[0].replace("done", "failed"))).fingerprint


@pytest.mark.parametrize(
    "frame",
    [
        "<system-reminder>x</system-reminder> {} <env>y</env>",
        "<system-reminder>\n# claudeMd\nContents of CLAUDE.md:\n{}\n</system-reminder>",
        "Recent commits:\n9bdf79c a\n\n{}",
    ],
)
def test_text_around_marked_blocks_is_user_text(frame: str) -> None:
    one, other = (normal(messages(frame.format(text))) for text in ("in 30 seconds", "in 5 minutes"))
    assert one.fingerprint != other.fingerprint


def test_a_word_after_task_id_is_kept() -> None:
    """It is looked for everywhere: a word that was taken for an id would be gone from the instructions."""
    system = "Use Read instead of cat. Put invoices first."
    found = normal(messages("Ask for the one with ID instead; the task ID invoices", system=system)).body
    assert isinstance(found, dict)
    assert found["system"] == system


def test_ids_keep_their_order() -> None:
    """Which result belongs to which call is a matter of structure."""

    def talk(first: str, second: str, result_of: str) -> dict[str, Any]:
        calls = [{"type": "tool_use", "id": name, "name": "Bash"} for name in (first, second)]
        result = {"type": "tool_result", "tool_use_id": result_of, "content": "x"}
        return {"messages": [{"role": "assistant", "content": calls}, {"role": "user", "content": [result]}]}

    a, b, c, d = (f"toolu_01{letter * 22}" for letter in "abcd")
    assert normal(talk(a, b, a)).fingerprint == normal(talk(c, d, c)).fingerprint
    assert normal(talk(a, b, a)).fingerprint != normal(talk(c, d, d)).fingerprint
    assert normal(talk(a, b, b)).names == {"id-1": a, "id-2": b}


def test_an_id_recognised_by_its_context_is_replaced_everywhere() -> None:
    def talk(shell: str) -> dict[str, Any]:
        block = {"type": "tool_result", "content": f"Command running in background with ID: {shell}."}
        first = {"role": "user", "content": [block]}
        call = {"type": "tool_use", "name": "BashOutput", "input": {"which": shell}}
        return {"messages": [first, {"role": "assistant", "content": [call, {"type": "text", "text": shell}]}]}

    assert normal(talk("bxzqwvtrp")).fingerprint == normal(talk("bkjhgfdsa")).fingerprint


def test_earlier_messages_keep_their_numbers_in_later_turns() -> None:
    """Else nothing of a talk would be the same from turn to turn, and each turn be written whole."""
    texts = [f"commit {number:040x}" for number in range(6)]
    system = "Recent commits:\n9bdf79c a commit"
    short, long = normal(messages(*texts[:3], system=system)).body, normal(messages(*texts, system=system)).body
    assert isinstance(short, dict)
    assert isinstance(long, dict)
    assert long["messages"][:3] == short["messages"]
    assert long["system"] == short["system"]


@pytest.mark.parametrize("key", ["metadata", "user", "prompt_cache_key", "safety_identifier", "client_metadata"])
def test_user_ids_do_not_matter(key: str) -> None:
    assert normal(messages("go", **{key: "x"})).fingerprint == normal(messages("go")).fingerprint
    inner = {**messages("go"), "tools": [{key: "x"}]}
    assert normal(inner).fingerprint != normal({**inner, "tools": [{}]}).fingerprint


def test_caching_does_not_matter() -> None:
    cached = {"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}
    blocks = {"messages": [{"role": "user", "content": [cached]}]}
    assert normal(blocks).fingerprint == normal({"messages": [{"content": "go", "role": "user"}]}).fingerprint
    uncached = {"type": "text", "text": "go"}
    assert normal({"system": [uncached, cached]}).fingerprint == normal({"system": [uncached, uncached]}).fingerprint


def test_signatures_do_not_matter_but_their_presence_does() -> None:
    def talk(**more: str) -> dict[str, Any]:
        return {"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", **more}]}]}

    one, other = "D8xicmKOcq10CZyK0QgXhEeqskmXsU", "8ToOfyn-qNs4mGUo65uwkpGLBKpr37cnN8FmFvoK"
    assert normal(talk(signature=one)).fingerprint == normal(talk(signature=other)).fingerprint
    assert normal(talk(signature=one)).fingerprint != normal(talk()).fingerprint
    assert normal(talk(signature="def f(x) -> int")).fingerprint != normal(talk(signature=one)).fingerprint


def test_method_and_path_matter() -> None:
    found = {
        normal({}).fingerprint,
        normal({}, path="/v1/messages/count_tokens").fingerprint,
        normal({}, method="GET").fingerprint,
        normal(None).fingerprint,
        normal(None, raw=b"no json").fingerprint,
        normal({"stream": True}).fingerprint,
    }
    assert len(found) == 6


def test_places() -> None:
    where = Places((("project", HERE.parent), ("workspace", HERE), ("home", HOME)))
    munged = "-rec-work-space-run-2026-11-16-023149-0ad713-src-modified"
    text = f"cc -I{HERE}/include {HERE}: {HERE.parent}/artifacts {HOME}/.claude/projects/{munged}/a {HOME}less"
    assert text_of(messages(text), where) == (
        "cc -I{{workspace}}/include {{workspace}}: {{project}}/artifacts "
        "{{home}}/.claude/projects/{{workspace}}/a /rec/homeless"
    )


@pytest.mark.parametrize("text", ["/home/me/tmp/a", "/tmpfs", "${HOME}/tmp/a", "~/tmp", "../tmp", "x/tmp", "a\\tmp"])
def test_the_end_of_another_path_is_not_replaced(text: str) -> None:
    """What is filled in for it would be wrong."""
    assert text_of(messages(text), Places((("tmp", Path("/tmp")),))) == text


@pytest.mark.parametrize(
    "text", ["`%s`", "file://%s", "-I%s", "a:%s:b", '"x\\n%s"', "(%s)", "P=%s", "%s.", "%s\\n", "@%s"]
)
def test_contexts_of_a_path(text: str) -> None:
    assert text_of(messages(f"cc {text % HERE}")) == f"cc {text % '{{workspace}}'}"


def test_names_in_a_directory_for_temporary_files() -> None:
    """Wherever that is: some systems have one for each user."""

    def replaced(directory: str, name: str) -> str:
        where = Places((("tmp", Path(directory)),))
        return text_of(messages(f"see {directory}/{name}/log, {directory}/notes.md and {directory}"), where)

    assert replaced("/tmp", "tmp.5qoEtiAXx8") == replaced("/home/ci/_temp", "tmp.yzEMCYHuTi")
    assert replaced("/tmp", "tmp.5qoEtiAXx8") == "see {{tmp}}/{{id-1}}/log, {{tmp}}/notes.md and {{tmp}}"


def test_paths_with_dashes_for_slashes() -> None:
    munged = "-rec-work-space-run-2026-11-16-023149-0ad713-src-modified"
    assert shown(f"a/{munged}/b") == "a/{{workspace}}/b"
    assert "{{workspace}}" not in shown(f"my{munged}/b")


def test_two_directories() -> None:
    one = messages(f"cwd {HERE}", f'{{"path": "{HERE}/a"}}')
    other = messages(f"cwd {THERE}", f'{{"path": "{THERE}/a"}}')
    assert normal(one).fingerprint == normal(other, places(THERE)).fingerprint
    assert normal(one).fingerprint != normal(other).fingerprint


def test_paths_of_windows() -> None:
    where = Places((("workspace", Path("C:\\Users\\me\\run\\src")),))
    text = 'C:\\Users\\me\\run\\src\\a, {"p": "C:\\\\Users\\\\me\\\\run\\\\src\\\\a"}, C:/Users/me/run/src/a'
    assert text_of(messages(text), where) == '{{workspace}}\\a, {"p": "{{workspace}}\\\\a"}, {{workspace}}/a'


def test_a_path_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    where = Places((("workspace", tmp_path / "link"),))
    assert text_of(messages(f"{tmp_path}/link/a {tmp_path}/real/a"), where) == "{{workspace}}/a {{workspace}}/a"


def test_images_are_unchanged() -> None:
    picture = "iVBORw0KGgo0123456789abcdef/" * 300
    assert shown(picture) == picture


def test_odd_json() -> None:
    """Half a surrogate pair and huge numbers are JSON too."""
    odd = messages("\ud800", seed=2**70)
    assert normal(odd).fingerprint == normal(copy.deepcopy(odd)).fingerprint
    assert normal(odd).fingerprint != normal(messages("\ud800", seed=2**70 + 1)).fingerprint
