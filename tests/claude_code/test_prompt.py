"""The prompt: its sources, and how it is passed."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from claude_config import parse_config
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from youbencha.adapters.claude_code import ClaudeCodeConfig
from youbencha.adapters.claude_code.command import Delivery, check_prompt, print_delivery
from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.cli_agent import config as common
from youbencha.errors import ConfigError

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


class Prompt(NamedTuple):
    text: str
    delivery: Delivery


def read_prompt(config: ClaudeCodeConfig, *, workspace: Path, config_dir: Path | None) -> Prompt:
    text = common.read_prompt(ClaudeCode, config, workspace=workspace, config_dir=config_dir)
    check_prompt(text, config)
    return Prompt(text, print_delivery(text, config))


def prompt(text: str, **config: Any) -> Prompt:
    return read_prompt(parse_config({"prompt": text, **config}), workspace=Path("/nowhere"), config_dir=None)


def prompt_file(name: str, workspace: Path, config_dir: Path | None = None, **config: Any) -> str:
    parsed = parse_config({"prompt_file": name, **config})
    return read_prompt(parsed, workspace=workspace, config_dir=config_dir).text


def refused(name: str, workspace: Path, config_dir: Path | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        prompt_file(name, workspace, config_dir)
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    (only,) = caught.value.problems
    assert only.path == "prompt_file"
    return str(only)


# -- delivery ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "delivery"),
    [
        ("x", "argument"),
        ("x" * 7_000, "argument"),
        ("x" * 7_001, "stdin"),
        ("🙂" * 7_000, "argument"),
        ("🙂" * 7_001, "stdin"),
        ("x" * 1_000_000, "stdin"),
        ("a\0b", "stdin"),
        ("-p", "argument"),
    ],
)
def test_default_delivery(text: str, delivery: str) -> None:
    assert prompt(text) == Prompt(text, delivery)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["x" * 131_071, "漢" * 43_690 + "x"])
def test_the_longest_argument(text: str) -> None:
    assert len(text.encode()) == 131_071
    assert prompt(text, prompt_delivery="argument").delivery == "argument"


@pytest.mark.parametrize("text", ["x" * 131_072, "漢" * 43_690 + "xx", "🙂" * 32_768, "a\0b"])
def test_prompts_too_long_for_an_argument(text: str) -> None:
    with pytest.raises(ConfigError, match="prompt_delivery: an argument cannot hold this prompt"):
        prompt(text, prompt_delivery="argument")
    assert prompt(text).delivery == "stdin"


@pytest.mark.parametrize("wanted", ["stdin", "file"])
@pytest.mark.parametrize("text", ["x", "x" * 1_000_000, "a\0b"])
def test_requested_delivery(text: str, wanted: str) -> None:
    assert prompt(text, prompt_delivery=wanted).delivery == wanted


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(ConfigError, match="prompt: is not valid Unicode"):
        prompt("ab\ud83d")
    # A configuration that was made without validation
    made = ClaudeCodeConfig.model_construct(prompt="ab\ud83d", prompt_file=None, prompt_delivery="auto")
    with pytest.raises(ConfigError, match="prompt: is not valid Unicode at character 2"):
        read_prompt(made, workspace=Path("/nowhere"), config_dir=None)


# -- slash commands ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["/help", "/foo:bar baz", "/compact\nnow", "/x", "/mcp__a__b", "/init.d is"])
def test_a_command_of_the_cli_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        prompt(text)
    assert f"starts with '{text.split()[0]}'" in str(caught.value)
    assert "put a space before it" in str(caught.value)
    with pytest.raises(ConfigError):
        prompt(text, prompt_delivery="stdin")
    assert prompt(text, slash_commands=True).text == text
    assert prompt(text, prompt_delivery="file").text == text


@pytest.mark.parametrize(
    "text", [" /help", "\n/help", "/usr/bin/env is where?", "/ is the root", "//help", "/", "a /b"]
)
def test_prompts_that_are_not_commands(text: str) -> None:
    assert prompt(text).text == text


def test_a_command_in_a_file_is_refused_too(workspace: Path) -> None:
    (workspace / "p.md").write_text("/help")
    with pytest.raises(ConfigError, match="starts with '/help'"):
        prompt_file("p.md", workspace)


# -- prompt_file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["p.md", "./p.md", "a/b/p.md", "a//b/./p.md", "~", "~root", "%2e%2e", "..p", "p..", "a b"]
)
def test_a_file_is_read_byte_for_byte(name: str, workspace: Path) -> None:
    text = "\ufeffé 漢 🙂\r\n\ttab\r \0 end \n\n"
    (workspace / name).parent.mkdir(parents=True, exist_ok=True)
    (workspace / name).write_bytes(text.encode())
    assert prompt_file(name, workspace) == text


@pytest.mark.parametrize(
    "name", ["..", "../x", "a/../b", "a/..", "..\\x", "a\\..\\b", "a/..\\b", "./../x", "../workspace/p.md"]
)
def test_parent_directories_are_refused(name: str, workspace: Path) -> None:
    (workspace / "p.md").write_text("x")
    assert "contains '..'" in refused(name, workspace)
    assert "contains '..'" in refused(name, workspace, config_dir=workspace)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "//etc/passwd",
        "C:\\x",
        "c:/x",
        "C:x",
        "\\\\server\\share\\x",
        "//server/share/x",
        "\\x",
        "\\\\?\\C:\\x",
    ],
)
def test_no_absolute_path_of_any_system(name: str, workspace: Path) -> None:
    assert "is absolute" in refused(name, workspace)
    assert "is absolute" in refused(name, workspace, config_dir=workspace)


def test_a_tilde_is_only_a_name(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent))
    (workspace.parent / "secret").write_text("x")
    assert "does not exist" in refused("~/secret", workspace)


def test_a_nul_in_the_name(workspace: Path) -> None:
    assert "NUL" in refused("a\0b", workspace)


@needs_posix
def test_links(workspace: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (workspace / "inside").mkdir()
    (workspace / "inside" / "p.md").write_text("fine")
    (workspace / "to-file").symlink_to(outside / "secret")
    (workspace / "to-directory").symlink_to(outside)
    (workspace / "relative").symlink_to("../outside/secret")
    (workspace / "chain").symlink_to("to-file")
    (workspace / "good").symlink_to("inside/p.md")
    (workspace / "good-directory").symlink_to(workspace / "inside")
    for name in ("to-file", "to-directory/secret", "relative", "chain"):
        assert "leads out of" in refused(name, workspace)
    for name in ("good", "good-directory/p.md"):
        assert prompt_file(name, workspace) == "fine"


@needs_posix
def test_a_sibling_with_a_longer_name_is_outside(workspace: Path) -> None:
    sibling = workspace.parent / "workspace-2"
    sibling.mkdir()
    (sibling / "p").write_text("x")
    (workspace / "link").symlink_to(sibling / "p")
    assert "leads out of" in refused("link", workspace)


@needs_posix
def test_a_workspace_that_is_itself_behind_a_link(workspace: Path) -> None:
    (workspace / "p.md").write_text("fine")
    (workspace.parent / "alias").symlink_to(workspace)
    assert prompt_file("p.md", workspace.parent / "alias") == "fine"


@needs_posix
def test_broken_links(workspace: Path) -> None:
    (workspace / "circle").symlink_to("circle")
    (workspace / "dangling").symlink_to("missing")
    assert "circle" in refused("circle", workspace)
    assert "circle" in refused("circle", workspace, config_dir=workspace)
    assert "does not exist" in refused("dangling", workspace)


@needs_posix
def test_a_pipe_is_not_waited_on(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    said: list[str] = []
    asking = threading.Thread(target=lambda: said.append(refused("pipe", workspace)), daemon=True)
    asking.start()
    asking.join(timeout=10)
    assert said == ["prompt_file: pipe is not a regular file"]


def test_unreadable_files(workspace: Path) -> None:
    (workspace / "directory").mkdir()
    (workspace / "empty").touch()
    (workspace / "latin").write_bytes("abé".encode("latin-1"))
    (workspace / "long").write_text("x" * 1_000_001)
    (workspace / "huge").write_text("🙂" * 1_000_001)
    (workspace / "file").write_text("x")
    assert "not a regular file" in refused("directory", workspace)
    assert f"does not exist (searched: {workspace})" in refused("missing", workspace)
    beside = workspace.parent  # the workspace is a run's own, and may be gone when this is read
    places = f"does not exist (searched: {beside}, then the repository)"
    assert places in refused("missing", workspace, config_dir=beside)
    assert "is empty" in refused("empty", workspace)
    assert "is not UTF-8 at byte 2" in refused("latin", workspace)
    for name in ("long", "huge"):
        assert "is longer than 1,000,000 characters" in refused(name, workspace)
    assert "file/x" in refused("file/x", workspace)
    for base in (None, workspace):
        assert "x" * 300 in refused("x" * 300, workspace, config_dir=base)


@pytest.mark.parametrize("text", ["x" * 1_000_000, "🙂" * 1_000_000])
def test_the_longest_file(text: str, workspace: Path) -> None:
    (workspace / "p.md").write_text(text, encoding="utf-8")
    assert prompt_file("p.md", workspace) == text


def test_the_config_directory_comes_first(workspace: Path) -> None:
    beside = workspace.parent / "cases"
    beside.mkdir()
    (workspace / "p.md").write_text("workspace")
    assert prompt_file("p.md", workspace, beside) == "workspace"
    (beside / "p.md").write_text("beside")
    assert prompt_file("p.md", workspace, beside) == "beside"
    assert prompt_file("p.md", workspace) == "workspace"


@needs_posix
def test_a_link_out_of_the_config_directory_is_refused(workspace: Path) -> None:
    beside = workspace.parent / "cases"
    beside.mkdir()
    (workspace / "p.md").write_text("workspace")
    (beside / "p.md").symlink_to(workspace / "p.md")
    assert "leads out of" in refused("p.md", workspace, beside)


_PIECES = st.sampled_from(["..", ".", "a", "out", "in", "secret", "/", "\\", "C:", "~", "", "\0", "%2e%2e", "…", "*"])


@needs_posix
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(name=st.one_of(st.lists(_PIECES, min_size=1, max_size=8).map("".join), st.text(min_size=1, max_size=60)))
@example(name="out/secret")
@example(name="in/../../outside/secret")
def test_no_name_leads_outside(name: str, tmp_path: Path) -> None:
    base, outside = tmp_path / "base", tmp_path / "outside"
    if not base.exists():
        for directory in (base / "in", outside):
            directory.mkdir(parents=True)
        (base / "in" / "a").write_text("inside")
        (base / "a").symlink_to("in/a")
        (base / "out").symlink_to(outside)
        for place in (outside / "secret", outside / "a", tmp_path / "secret", tmp_path / "a"):
            place.write_text("outside")
    try:
        text = prompt_file(name, base, config_dir=base)
    except ConfigError:
        return
    assert text == "inside"
