"""Golden files, how they are compared and updated, and how their contents are made.

Everything goes through what users have (`yb`, HTTP, files on disk), so that these tests survive any change of the code
behind it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from yb import SCRIPT
from youbencha.cli.app import run_app

DATA = Path(__file__).parent / "data"
PATIENCE_S = 60.0
"""After which a test that hangs is ended."""
API_KEY = "sk-ant-golden-0123456789abcdef"
KEYS = {
    "ANTHROPIC_API_KEY": API_KEY,
    "OPENAI_API_KEY": "sk-golden-openai-012345",
    "GEMINI_API_KEY": "golden-gemini-0123",
}
HOW_TO_UPDATE = (
    "If this change is intended: run `pytest tests/golden --update-golden`, look at the diff of tests/golden/data,\n"
    "and add a line to CHANGELOG.md: users have files of this format, or programs that read it."
)


@dataclass(frozen=True)
class Golden:
    directory: Path
    update: bool

    def check(self, name: str, text: str) -> None:
        """Fail unless the golden file `name` holds this text."""
        file = self.directory / name
        if self.update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
            return
        known = file.read_text(encoding="utf-8") if file.is_file() else ""
        if text != known:
            lines = difflib.unified_diff(known.splitlines(), text.splitlines(), f"{name} (golden)", "now", lineterm="")
            pytest.fail("\n".join([f"{name} has changed.", *lines, "", HOW_TO_UPDATE]), pytrace=False)

    def check_json(self, name: str, value: object) -> None:
        self.check(name, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")

    def check_tree(self, name: str, files: Mapping[str, str]) -> None:
        """Fail unless the golden directory `name` holds these files and no others."""
        known = {str(path.relative_to(self.directory / name)) for path in (self.directory / name).rglob("*.*")}
        for gone in known - files.keys():
            if self.update:
                (self.directory / name / gone).unlink()
        if not self.update and known != files.keys():
            changed = [f"-{each}" for each in sorted(known - files.keys())]
            changed += [f"+{each}" for each in sorted(files.keys() - known)]
            pytest.fail("\n".join([f"the files in {name} have changed.", *changed, "", HOW_TO_UPDATE]), pytrace=False)
        for each, text in files.items():
            self.check(f"{name}/{each}", text)


T = TypeVar("T")

VARIABLE = (
    (r"sk-yb-[0-9a-f]+", "<virtual key>"),
    (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
    (r"(?<=127\.0\.0\.1:<port>/)[\w-]{32}(?![\w-])", "<token>"),
    (r"\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(?:[.-]\d+)?(?:Z|\+00:00)?", "<time>"),
    (r"<root>/home/\.cache/youbencha/\w+/[\w-]+", "<private>"),
    (r"<private>/src-modified", "<workspace>"),
    (r"<private>/youbencha-[\w-]+", "<scratch>"),
    (r"(?<=took )[\d.]+ s", "<number> s"),
    (r"(?<=does not answer: )[^\"]+", "<error>"),
    (r"(?<=sent to it for )\d+ s", "<number> s"),
)
"""What differs from run to run, and what is written instead."""


def tidy(value: T, names: Mapping[str, str] | None = None, variable: Collection[str] = ()) -> T:
    """Replace what differs from run to run: the texts in `names` (text to name), the patterns of VARIABLE, and the
    values under the keys in `variable`, unless they are null."""
    known = sorted((names or {}).items(), key=lambda item: -len(item[0]))

    def text(value: str) -> str:
        for each, name in known:
            value = value.replace(each, f"<{name}>")
        for pattern, name in VARIABLE:
            value = re.sub(pattern, name, value)
        return value

    def tidied(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, list):
            return [tidied(each) for each in value]
        if isinstance(value, dict):
            return {
                text(key): f"<{key}>" if key in variable and each is not None else tidied(each)
                for key, each in value.items()
            }
        return value

    tidy_value: T = tidied(value)
    return tidy_value


def tidy_fields(text: str, *names: str) -> str:
    """JSON text with the values of these fields replaced, unless they are null; nothing else changes."""
    return re.sub(rf'"({"|".join(names)})":( ?)(?:"[^"]*"|[\d.]+)', r'"\1":\2"<\1>"', text)


def wait_for(found: Callable[[], T | None]) -> T:
    """Ask again until it is not None."""
    until = time.monotonic() + PATIENCE_S
    while (value := found()) is None:
        assert time.monotonic() < until, "timed out"
        time.sleep(0.01)
    return value


# -- `yb run` -----------------------------------------------------------------------------------------------------


class GoldenBench:
    """An empty home, a clean environment, a repository whose commit is always the same, and `yb` in this process."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.home = root / "home"
        self.home.mkdir()
        self.repository = root / "repository"
        self.case_file = root / "testcase.json"
        self._monkeypatch = monkeypatch
        kept = ("PATH", "PYTEST", "COV", "DOCKER_HOST")
        for name in [name for name in os.environ if not name.startswith(kept)]:
            monkeypatch.delenv(name)
        self.setenv(HOME=str(self.home), LANG="C.UTF-8", NO_COLOR="1")
        monkeypatch.setattr("tempfile.tempdir", None)  # determined anew, without TMPDIR
        monkeypatch.chdir(root)

    def setenv(self, **env: str) -> None:
        for name, value in env.items():
            self._monkeypatch.setenv(name, value)

    def make_repository(self, files: Mapping[str, str]) -> None:
        for name, content in files.items():
            path = self.repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        who = {"NAME": "Golden", "EMAIL": "golden@example.org", "DATE": "2026-01-15T12:00:00+0000"}
        env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
        for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "A shop"]):
            subprocess.run(["git", *command], cwd=self.repository, env={**os.environ, **env}, check=True)

    def write_case(self, **case: Any) -> None:
        """A test case for the repository, with these keys."""
        given = {"name": "golden", "description": "A golden run.", "repo": str(self.repository)}
        self.case_file.write_text(json.dumps({**given, "evaluators": ["git-diff"], **case}), encoding="utf-8")

    def run(self, *options: str, **case: Any) -> Path:
        """`yb run` with this test case; its run directory, whether it passed or not."""
        self.write_case(**case)
        before = self.runs()
        code = run_app(["run", "-c", str(self.case_file), "--quiet", *options])
        made = self.runs() - before
        assert len(made) == 1, f"exit code {code}"
        return made.pop()

    def runs(self) -> set[Path]:
        workspace = self.root / ".youbencha-workspace"
        return {path for path in workspace.iterdir() if path.is_dir()} if workspace.is_dir() else set()


Request = tuple[str, str, Mapping[str, str], str]
"""Method, path, headers and body; `@workspace@`, `@home@` and `@key@` in them are replaced by the agent's."""


class Sending:
    """A program that sends requests through a trial's gateway: as the agent, and again as an evaluator."""

    def __init__(self, directory: Path) -> None:
        self._requests, self._access = directory / "requests.json", directory / "access.json"
        self._replies, self._late = directory / "replies.json", directory / "late-replies.json"

    def agent(self, requests: Sequence[Request]) -> dict[str, Any]:
        self._requests.write_text(json.dumps(requests), encoding="utf-8")
        self._access.unlink(missing_ok=True)
        return {"type": "command", "config": {"command": self._command(self._replies), "prompt_by": "none"}}

    def evaluator(self) -> dict[str, Any]:
        return {"name": "command", "config": {"command": self._command(self._late)}}

    def replies(self, *, late: bool = False) -> list[Reply]:
        """What the agent got; or, late, the evaluator."""
        got = json.loads((self._late if late else self._replies).read_text())
        return [Reply(status, headers, body.encode()) for status, headers, body in got]

    def _command(self, replies: Path) -> list[str]:
        program = Path(__file__).with_name("golden_sender.py")
        return [sys.executable, *map(str, (program, self._requests, replies, self._access))]


# -- `yb gateway` and the like ------------------------------------------------------------------------------------


class Served(NamedTuple):
    process: subprocess.Popen[str]
    ready: Mapping[str, Any]
    """The line that it prints when it is ready."""

    @property
    def url(self) -> str:
        return str(self.ready["url"])


@contextmanager
def serving(*arguments: str, **env: str) -> Iterator[Served]:
    """A command of `yb` that serves, until the end of the block (SIGTERM)."""
    world = {"PATH": os.environ["PATH"], "NO_COLOR": "1", **env}
    process = subprocess.Popen(
        [str(SCRIPT), *arguments], env=world, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield Served(process, json.loads(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        process.stdout.close()


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes

    def text(self, headers: Collection[str] = ("content-type", "retry-after", "x-should-retry")) -> str:
        """As it came over the wire, with the headers that clients decide by."""
        shown = [f"{name}: {value}" for name, value in sorted(self.headers.items()) if name in headers]
        return "\n".join([f"HTTP {self.status}", *shown, "", self.body.decode()])


def ask(url: str, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
    """One request over a connection of its own."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        returned = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, returned, answer.read())
    finally:
        connection.close()
