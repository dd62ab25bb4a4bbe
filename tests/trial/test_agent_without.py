"""`without`: files of the repository that an agent does not get, and that are never in its diff."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from test_agent_files import ran, write
from trial_bench import TrialBench

from systems import posix_only
from youbencha.adapters import get_adapter
from youbencha.spec.testcase import AgentSpec, TestCase
from youbencha.trial.agent_files import files_read

pytestmark = posix_only("a shell and links")

REPOSITORY = {
    "CLAUDE.md": "Be brief.\n",
    ".claude/settings.json": "{}\n",
    ".claude/skills/tax/SKILL.md": "Tax.\n",
    "src.py": "A = 1\n",
}


def case_without(trials: TrialBench, line: str, **agent: Any) -> TestCase:
    program = f"import subprocess; subprocess.run(['sh', '-c', {line!r}], check=True)"
    case = trials.case(program, repo=trials.repository(files=REPOSITORY))
    given = {**case.agent.model_dump(), "without": ["CLAUDE.md", ".claude/", "nowhere.md"], **agent}
    return case.model_copy(update={"agent": AgentSpec.model_validate(given)})


WORK = {
    "nothing": ('test -z "$(ls -A | grep -iv \'^.git$\' | grep -v src.py)" && test -z "$(git status --short)"', []),
    "its own file": ("echo mine > CLAUDE.md", ["M CLAUDE.md"]),
    "its own file in the directory": ("mkdir .claude && echo mine > .claude/mine.md", ["A .claude/mine.md"]),
    "a file in place of the directory": (
        "echo mine > .claude",
        ["A .claude", "D .claude/settings.json", "D .claude/skills/tax/SKILL.md"],
    ),
    "a link in place of the directory": (
        'ln -s "$OUTSIDE" .claude',
        ["A .claude", "D .claude/settings.json", "D .claude/skills/tax/SKILL.md"],
    ),
    "a commit of everything": ("git add -A && git -c user.name=a -c user.email=a@b commit -qm all --allow-empty", []),
    "the file as it was": ("git show HEAD:CLAUDE.md > CLAUDE.md", []),
    "other work": ("echo A = 2 > src.py; rm -rf .git", ["M src.py"]),
}


@pytest.mark.parametrize("what", WORK)
async def test_the_diff_has_only_what_the_agent_did(trials: TrialBench, what: str) -> None:
    line, changes = WORK[what]
    outside = write(trials.root / "outside", {"settings.json": "the user's\n"})
    done = await ran(trials, case_without(trials, f"OUTSIDE='{outside}'; {line}"))
    assert done.bundle.agent is not None
    assert done.bundle.agent.status == "success", done.output
    assert changed_files(done.diff) == changes
    assert (outside / "settings.json").read_text() == "the user's\n"  # no link was followed
    if what != "the file as it was" and not changes:
        assert done.files() == REPOSITORY


def changed_files(diff: str) -> list[str]:
    found = []
    for part in diff.split("diff --git ")[1:]:
        head, *lines = part.splitlines()
        kind = "A" if lines[0].startswith("new file") else "D" if lines[0].startswith("deleted") else "M"
        found.append(f"{kind} {head.partition(' b/')[2]}")
    return found


async def test_a_file_that_is_laid_replaces_one_that_is_taken_out(trials: TrialBench) -> None:
    write(trials.root / "overlay", {"CLAUDE.md": "Be long.\n"})
    case = case_without(trials, "cat CLAUDE.md; ls -A .claude; true", files="overlay")
    done = await ran(trials, case)
    assert "Be long." in done.output
    assert "settings.json" not in done.output
    assert done.diff == ""
    assert done.files() == REPOSITORY


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", ".git", ".git/config", ".", "a/../../b"])
def test_only_paths_in_the_repository(path: str) -> None:
    with pytest.raises(ValidationError, match="without"):
        AgentSpec.model_validate({"type": "command", "without": ["a.md", path]})


READ: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "claude-code": (
        "claude-code",
        {},
        [".claude/settings.json", ".claude/skills/tax/SKILL.md", ".mcp.json", "CLAUDE.md", "lib/CLAUDE.md"],
    ),
    "without": ("claude-code", {"without": ["CLAUDE.md", ".claude"]}, [".mcp.json", "lib/CLAUDE.md"]),
    "user's settings only": ("claude-code", {"config": {"setting_sources": ["user"]}}, []),
    "codex": ("codex", {}, ["AGENTS.md"]),
    "gemini-cli": ("gemini-cli", {}, ["GEMINI.md"]),
    "opencode": ("opencode", {}, [".claude/skills/tax/SKILL.md", "AGENTS.md", "CLAUDE.md", "lib/CLAUDE.md"]),
}


@pytest.mark.parametrize("what", READ)
def test_what_an_agent_reads_of_a_commit(what: str) -> None:
    kind, agent, expected = READ[what]
    paths = [*REPOSITORY, ".claude/skills/tax/rates.csv", "lib/CLAUDE.md", ".mcp.json", "lib/.mcp.json", "AGENTS.md"]
    places = get_adapter(kind).file_places
    spec = AgentSpec.model_validate({"type": kind, **agent})
    assert list(files_read([*paths, "GEMINI.md", "MY-CLAUDE.md"], spec, places)) == expected
