"""Problems of hooks that can be found before a run are reported before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from youbencha.hooks.run import hook_problems
from youbencha.spec.testcase import ScriptConfig, ScriptHook, WebhookConfig, WebhookHook


def webhook(url: Any, **headers: str) -> dict[str, Any]:
    return {"name": "webhook", "config": {"url": url, "headers": headers}}


def script(command: Any, **config: Any) -> dict[str, Any]:
    return {"name": "script", "config": {"command": command, **config}}


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "notaurl",
        "http://",
        "https:///path",
        "https://host:99999/",
        "https://[::1/",
        "ftp://${HOST}/x",
        "not/${PATH}",
        "http:///${PATH}",
        "https://host:0/${PATH}",
        "",
    ],
)
def test_an_invalid_address(url: str) -> None:
    [problem] = hook_problems([webhook(url)], Path())
    assert (problem.path, problem.message) == ("0.config.url", "must be an http or https address, with a host")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        " HTTPS://example.com/x ",
        "http://user@[::1]:8080/x?y#z",
        "${SLACK_WEBHOOK_URL}",
        "${SCHEME}://x",
        "http${S}://x",
        "https://${HOST}/x",
        "https://hooks.${DOMAIN}",
        "https://${USER}:${PASSWORD}@example.com/",
        "https://example.com/${TOKEN}",
        "https://example.com?key=${TOKEN}",
    ],
)
def test_a_possibly_valid_address(url: str) -> None:
    assert hook_problems([webhook(url)], Path()) == []


@pytest.mark.parametrize("url", ["https://user:pw@example.com/", "https://${USER}:${PASSWORD}@example.com"])
@pytest.mark.parametrize("name", ["Authorization", "authorization"])
def test_credentials_in_both_url_and_header(url: str, name: str) -> None:
    [problem] = hook_problems([webhook(url, **{name: "Bearer x"})], Path())
    assert problem.path == f"0.config.headers.{name}"
    assert "user and password in `url`" in problem.message
    assert hook_problems([webhook(url, Accept="x")], Path()) == []
    assert hook_problems([webhook("https://example.com/@me", **{name: "Bearer x"})], Path()) == []


@pytest.mark.parametrize("command", ["./gone.sh", "tools/gone.py", "/no/such/program", "~nobody-here/x", "./a\0b"])
def test_a_missing_program(command: str, tmp_path: Path) -> None:
    [problem] = hook_problems([script(command)], tmp_path)
    assert problem.path == "0.config.command"
    assert "there is no file" in problem.message
    assert "is relative to the test case" in (problem.hint or "")


@pytest.mark.parametrize("command", ["npm install", "./gone.sh --all", "cat x | sort > y"])
def test_a_line_for_the_shell_is_not_searched(command: str, tmp_path: Path) -> None:
    assert hook_problems([script(command)], tmp_path) == []


def test_a_program_may_be_below_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there.sh").touch()
    (tmp_path / "cases").mkdir()
    assert len(hook_problems([script("./there.sh")], tmp_path / "cases")) == 1
    monkeypatch.chdir(tmp_path)
    assert hook_problems([script("./there.sh")], tmp_path / "cases") == []


@pytest.mark.parametrize(
    "command", ["./there.sh", " ./there.sh ", "sub/there.sh", "bare-name", "${TOOLS}/x.sh", "./${NAME}.sh"]
)
def test_a_program_that_may_exist(command: str, tmp_path: Path) -> None:
    (tmp_path / "there.sh").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "there.sh").touch()
    assert hook_problems([script(command)], tmp_path) == []
    assert hook_problems([script("./gone.sh && echo yes", shell=True)], tmp_path) == []


def test_every_hook_is_checked_and_invalid_hooks_are_skipped(tmp_path: Path) -> None:
    written = [
        "nonsense",
        {"name": "webhook"},
        {"name": ["x"], "config": {}},
        {"name": "database", "config": {"type": "sqlite", "output_path": "x"}},
        webhook(5),
        script(None),
        webhook("x"),
        script("./x"),
    ]
    assert [problem.path for problem in hook_problems(written, tmp_path)] == ["6.config.url", "7.config.command"]


def test_models_are_accepted_too(tmp_path: Path) -> None:
    hooks = [
        ScriptHook(name="script", config=ScriptConfig(command="./gone.sh")),
        WebhookHook(name="webhook", config=WebhookConfig(url="ftp://x")),
    ]
    assert [problem.path for problem in hook_problems(hooks, tmp_path)] == ["0.config.command", "1.config.url"]
