"""CR-2.4, CR-2.5, FR-003, FR-005 to FR-007, FR-021 and seed 004's large prompts: how the prompt gets to the CLI.

That the real CLI then hands it to the model byte for byte is checked in `tests/security`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from claude_bench import ClaudeBench, says, script, uses
from echo_cli import EchoCli, needs_shell
from systems import posix_only
from youbencha.errors import ConfigError

PROMPT = "Review the code.\n\n- 'quotes', `ticks`, $HOME\n- 漢字 🙂\n"
UNIT = "line 漢 é 'quoted' $HOME `id` \\ end\n"


def text_of(characters: int) -> str:
    return (UNIT * (characters // len(UNIT) + 1))[: characters - 1] + "."


@needs_shell
@pytest.mark.parametrize("prompt", ["List files", "--version", "-p", "- one\n- two"])
async def test_cr_2_4_fr_003_fr_021_the_prompt_is_the_last_argument_of_print_mode(tmp_path: Path, prompt: str) -> None:
    received = await EchoCli(tmp_path).run(config={"prompt": prompt})
    assert received.result.status == "success", received.result.errors
    assert received.argv[-3:] == ["-p", "--", prompt]


@needs_shell
@pytest.mark.parametrize(("characters", "by_argument"), [(7_000, True), (7_001, False), (300_000, False)])
async def test_a_large_prompt_arrives_byte_for_byte(tmp_path: Path, characters: int, by_argument: bool) -> None:
    prompt = text_of(characters)
    received = await EchoCli(tmp_path).run(config={"prompt": prompt})
    assert (prompt in received.argv) is by_argument
    assert received.prompt == prompt


# -- prompt_file -------------------------------------------------------------------------------------------------


@needs_shell
async def test_cr_2_5_fr_006_a_prompt_file_in_the_workspace_is_the_prompt(tmp_path: Path) -> None:
    prompts = tmp_path / "repo" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "task.md").write_bytes(PROMPT.encode())
    config = {"prompt": None, "prompt_file": "./prompts/task.md"}
    received = await EchoCli(tmp_path / "cli").run(config=config, workspace_dir=tmp_path / "repo")
    assert received.prompt == PROMPT


@needs_shell
async def test_cr_2_5_a_prompt_file_beside_the_test_case_wins(tmp_path: Path) -> None:
    for directory, text in (("cases", "the one beside the test case"), ("repo", "the one in the workspace")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "task.md").write_text(text)
    received = await EchoCli(tmp_path / "cli").run(
        config={"prompt": None, "prompt_file": "task.md"},
        workspace_dir=tmp_path / "repo",
        config_dir=tmp_path / "cases",
    )
    assert received.prompt == "the one beside the test case"


@pytest.mark.parametrize(
    ("config", "says_what"),
    [
        ({"prompt": "a", "prompt_file": "b.md"}, "both were given"),
        ({"prompt": None}, "neither was given"),
        ({"prompt": None, "prompt_file": "missing.md"}, "missing.md does not exist"),
        ({"prompt": None, "prompt_file": "../outside.md"}, "contains '..'"),
        pytest.param(
            {"prompt": None, "prompt_file": "link.md"}, "leads out of", marks=posix_only("links need a privilege")
        ),
    ],
)
async def test_fr_007_nfr_3_an_invalid_prompt_is_refused_and_the_cli_not_started(
    tmp_path: Path, config: dict[str, Any], says_what: str
) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (tmp_path / "outside.md").write_text("a secret of somebody else")
    if config.get("prompt_file") == "link.md":
        (repo / "link.md").symlink_to(tmp_path / "outside.md")
    cli = EchoCli(tmp_path / "cli")
    with pytest.raises(ConfigError) as caught:
        await cli.run(config=config, workspace_dir=repo)
    assert caught.value.code == "CLAUDE_INVALID_CONFIG"
    assert says_what in str(caught.value)
    assert not cli.was_started


# -- prompt_delivery: file ---------------------------------------------------------------------------------------


@needs_shell
async def test_a_prompt_passed_as_a_file_arrives_byte_for_byte(tmp_path: Path) -> None:
    prompt = "\ufeffwindows line\r\nnul \0 and 漢\n" * 20_000
    received = await EchoCli(tmp_path).run(config={"prompt": prompt, "prompt_delivery": "file"})
    assert received.file is not None
    assert received.file == prompt.encode()


@pytest.fixture
def prompt_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the prompt will be: the script must know it in advance, so the directory's name is not a random one."""
    directory, really = tmp_path / "temporary", tempfile.mkdtemp

    def mkdtemp(suffix: Any = None, prefix: str | None = None, dir: Any = None) -> str:
        if prefix != "youbencha-":
            return really(suffix, prefix, dir)
        directory.mkdir(mode=0o700)
        return str(directory)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    return directory / "prompt.md"


@pytest.mark.parametrize(
    "config",
    [pytest.param({}, id="bypass", marks=pytest.mark.full), pytest.param({"permission_mode": "default"}, id="default")],
)
async def test_the_prompt_file_is_removed_afterwards(
    claude: ClaudeBench, prompt_file: Path, config: dict[str, Any]
) -> None:
    prompt = "/review this: 'quotes' $HOME 漢 🙂\nand a last line"
    turns = (uses("Read", file_path=str(prompt_file)), says("Done."))
    session = await claude.run(script(*turns), config={"prompt": prompt, "prompt_delivery": "file", **config})
    assert session.result.status == "success", session.result.errors
    assert "CLAUDE_TOOL_DENIED" not in session.warning_codes()
    assert str(prompt_file) in session.prompt
    (call,) = session.log.tool_calls
    assert call.result is not None
    for line in prompt.split("\n"):
        assert line in call.result
    assert not prompt_file.parent.exists()
    assert list(claude.workspace.iterdir()) == []
