"""Which files of a repository reach the model on their own: `--dry-run` and reports list those."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from codex_bench import codex_bench
from copilot_bench import copilot_bench
from gemini_bench import gemini_bench
from opencode_bench import opencode_bench
from toolbox_agents import Bench, script

from youbencha.spec.testcase import AgentSpec
from youbencha.trial.agent_files import files_read

pytestmark = pytest.mark.full


def _with_name(name: str) -> str:
    return f"---\nname: {name}\ndescription: {{marker}}\n---\n"


CODE = "sub/code.txt"
"""The agent reads it, and with it what is meant for this directory."""
FILES = {
    **dict.fromkeys(("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "GEMINI.md", "CONTEXT.md"), "{marker}"),
    **dict.fromkeys(("sub/AGENTS.md", "sub/CLAUDE.md", "sub/GEMINI.md", "sub/CONTEXT.md"), "{marker}"),
    **dict.fromkeys(("CONVENTIONS.md", ".cursorrules", ".github/copilot-instructions.md"), "{marker}"),
    ".github/instructions/all.instructions.md": "---\napplyTo: '**'\n---\n{marker}",
    ".claude/rules/rule.md": "{marker}",
    ".claude/commands/command.md": _with_name("command"),
    ".claude/agents/one.md": _with_name("one"),
    ".github/agents/two.md": _with_name("two"),
    ".opencode/agent/three.md": _with_name("three"),
    **{
        f"{directory}/skills/{directory[1:]}/SKILL.md": _with_name(directory[1:])
        for directory in (".agents", ".claude", ".codex", ".gemini", ".github", ".opencode")
    },
    ".codex/config.toml": 'developer_instructions = "{marker}"',
    ".gemini/settings.json": '{"context": {"fileName": ["GEMINI.md", "{named}"]}}',
    "opencode.json": '{"instructions": ["{named}"]}',
    ".aider.conf.yml": "read: {named}",
}
"""What many agents read. `{named}` is another file, which then has the marker."""


class Reader(NamedTuple):
    bench: Callable[[Path], Bench]
    read: Mapping[str, Any]
    """Its call of the tool that reads a file."""
    hiding: tuple[str, ...] = ()
    """Files that make it ignore others: it is run again without each of these, one after the other."""


READERS = {
    "codex": Reader(
        codex_bench, {"name": "exec_command", "input": {"cmd": f"cat {CODE}"}}, hiding=("AGENTS.override.md",)
    ),
    "copilot-cli": Reader(copilot_bench, {"name": "view", "input": {"path": f"${{cwd}}/{CODE}"}}),
    "gemini-cli": Reader(gemini_bench, {"name": "read_file", "input": {"file_path": f"${{cwd}}/{CODE}"}}),
    "opencode": Reader(
        opencode_bench,
        {"name": "read", "input": {"filePath": "{workspace}/" + CODE}},
        hiding=("AGENTS.md", "CLAUDE.md"),
    ),
}


@pytest.mark.parametrize("agent", READERS)
async def test_the_files_that_an_agent_reads_are_those_of_its_table(agent: str, tmp_path: Path) -> None:
    reader = READERS[agent]
    reached: set[str] = set()
    for run in range(1 + len(reader.hiding)):
        hidden = reader.hiding[:run]
        given = [path for path in FILES if path.rpartition("/")[2] not in hidden]
        reached |= await reaching(reader, tmp_path / str(run), given)
    adapter = reader.bench(tmp_path).adapter
    assert reached == set(files_read(FILES, AgentSpec(type=agent), adapter.file_places))


async def reaching(reader: Reader, directory: Path, paths: list[str]) -> set[str]:
    """Those of the paths whose content is in a request to the model."""
    workspace = directory / "workspace"
    markers = {path: f"zebra-{number:03}-" for number, path in enumerate(paths)}
    for path, marker in markers.items():
        named = f"named-{path.replace('/', '-')}.txt"
        write(workspace / path, FILES[path].replace("{marker}", marker).replace("{named}", named))
        if "{named}" in FILES[path]:
            write(workspace / named, marker)
    write(workspace / CODE, "some code\n")
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *command], cwd=workspace, check=True)
    reading = json.loads(json.dumps(reader.read).replace("{workspace}", str(workspace)))
    session = await reader.bench(directory).run(script({"tools": [reading]}, {"text": "Done."}), timeout=200_000)
    sent = json.dumps([request.body for request in session.requests])
    assert "some code" in sent, session.result.output
    return {path for path, marker in markers.items() if marker in sent}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
