"""Which tools an agent may use."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from systems import ON_WINDOWS
from youbencha.control.policy import ALLOW_ALL, ToolPolicy, UnparsableCommand, commands_in, glob_match, rule_error


def bash(command: str) -> tuple[str, dict[str, object]]:
    return "Bash", {"command": command}


def allows(rule: str, tool: str, given: dict[str, object], *, root: str = "") -> bool:
    return ToolPolicy(allow=(rule,), root=root).decide(tool, given).allowed


def denies(rule: str, tool: str, given: dict[str, object], *, root: str = "") -> bool:
    return not ToolPolicy(deny=(rule,), root=root).decide(tool, given).allowed


def test_every_tool_is_allowed_by_default() -> None:
    assert ALLOW_ALL.decide("Bash", {}) == (True, "every tool is allowed")


def test_an_empty_list_allows_nothing() -> None:
    assert ToolPolicy(allow=()).decide("Read", {}) == (False, "no rule allows Read")


def test_deny_wins() -> None:
    policy = ToolPolicy(allow=("*",), deny=("Bash(rm *)",))

    assert policy.decide(*bash("rm -rf x")) == (False, "Bash is denied by the rule Bash(rm *)")
    assert policy.decide(*bash("ls")) == (True, "Bash is allowed by the rule *")


@pytest.mark.parametrize(
    ("rule", "tool", "fits"),
    [
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("bash", "Bash", False),
        ("Bash(*)", "Bash", True),
        ("*", "mcp__a__b", True),
        ("mcp__a__*", "mcp__a__b", True),
        ("mcp__a", "mcp__a__b", True),
        ("mcp__a", "mcp__ab__b", False),
        ("mcp__a__b", "mcp__a__bc", False),
        ("Note*", "NotebookEdit", True),
    ],
)
def test_names(rule: str, tool: str, fits: bool) -> None:
    assert allows(rule, tool, {}) is fits
    assert denies(rule, tool, {}) is fits


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git *", "git status"),
        ("git *", "git"),
        ("git:*", "git status"),
        ("git:*", "git"),
        ("git *", "git log 2>/dev/null"),
        ("git *", "git status && git diff | git apply; git log # it's all of it"),
        ("git *", "git commit -m 'a; b && c $(d)'"),
        ("git *", 'git commit -m "a; b\nc"'),
        ("git *", "git log \\\n  --oneline"),
        ("git status", "git status 2>&1"),
        ("npm run *", "npm run test -- --all"),
        ("* --version", "node --version"),
    ],
)
def test_commands_that_a_rule_allows(rule: str, command: str) -> None:
    assert allows(f"Bash({rule})", *bash(command))


FOOLING = [
    "rm -rf /",
    "gitx status",
    "git status; rm -rf /",
    "git status\nrm -rf /",
    "git status && rm -rf /",
    "git status || rm -rf /",
    "git status | sh",
    "git status & rm -rf /",
    "git status $(rm -rf /)",
    "git status `rm -rf /`",
    'git status "$(rm -rf /)"',
    'git status "`rm -rf /`"',
    "git status <(rm -rf /)",
    "git status > /etc/passwd",
    "git status >> ~/.bashrc",
    "git status &> out",
    "git status 2>out",
    "git status # it's\nrm -rf / #'",
    "git \\ #; rm -rf /",
    "git log $'\\'' ; rm -rf / #'",
    "git a \\\n# it's ;\nrm -rf / #'",
    "git <<X\n'\nX\nrm -rf / #'",
    "git ${x:-'}; rm -rf / #'}",
    "git 'unfinished",
    "git \\",
    "GIT_PAGER=rm git log",
    "(rm -rf /)",
    "git\u00a0# it; rm -rf /",
    "",
]


@pytest.mark.parametrize("command", FOOLING)
def test_commands_that_could_evade_a_rule(command: str) -> None:
    assert not allows("Bash(git *)", *bash(command))


def test_several_rules_cover_a_line_together() -> None:
    policy = ToolPolicy(allow=("Bash(git *)", "Bash(npm test)"))

    assert policy.decide(*bash("git pull && npm test")).reason == (
        "Bash is allowed by the rule Bash(git *) and Bash(npm test)"
    )
    assert policy.decide(*bash("git pull && npm install")).reason == "no rule allows Bash with 'npm install'"
    assert policy.decide(*bash("git log $(x)")).reason == (
        "no rule allows Bash with a substitution, which rules cannot look into"
    )


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "rm",
        " rm x",
        "cd /; rm x",
        "cd / && rm x",
        "ls | rm x 2>/dev/null",
        "rm x > out",
        "rm $(ls)",
    ],
)
def test_the_plain_forms_of_a_command_are_denied(command: str) -> None:
    assert denies("Bash(rm *)", *bash(command))


@pytest.mark.parametrize(
    "command", ["ls", "echo 'a; rm x'", "rmdir x", "git rm x", "/bin/rm x", "X=1 rm x", "echo $(rm x)", "sh -c 'rm x'"]
)
def test_other_commands_and_other_spellings_are_not_denied(command: str) -> None:
    assert not denies("Bash(rm *)", *bash(command))


@pytest.mark.parametrize(
    ("rule", "path", "fits"),
    [
        ("/workspace/*", "/workspace/a/b.py", True),
        ("/workspace/*", "/workspace/../etc/passwd", False),
        ("/workspace/*", "/workspace/a/../../etc/passwd", False),
        ("//workspace/**", "/workspace/a", True),
        ("src/*", "/workspace/src/a.py", True),
        ("./src/*", "src/a.py", True),
        ("src/*", "/etc/src/a.py", False),
        ("src/*", "/workspace/src/../x", False),
        ("*.py", "/workspace/src/a.py", True),
        ("*.py", "/workspace/src/a.pyc", False),
    ],
)
def test_paths(rule: str, path: str, fits: bool) -> None:
    assert allows(f"Write({rule})", "Write", {"file_path": path}, root="/workspace") is fits
    assert denies(f"Write({rule})", "Write", {"file_path": path}, root="/workspace") is fits


def test_a_relative_path_without_a_root() -> None:
    given: dict[str, object] = {"file_path": "/somewhere/.env"}

    assert denies("Read(.env)", "Read", given)
    assert not allows("Read(.env)", "Read", given)
    assert denies("Read(~/.ssh/*)", "Read", {"file_path": "/home/agent/.ssh/id"}, root="/workspace")


@pytest.mark.parametrize(
    ("rule", "url", "fits"),
    [
        ("domain:example.org", "https://example.org/a", True),
        ("domain:example.org", "https://EXAMPLE.org", True),
        ("domain:example.org", "https://example.org@evil.test/", False),
        ("domain:example.org", "https://evil.test/example.org", False),
        ("domain:*.example.org", "https://docs.example.org/a", True),
        ("https://example.org/*", "https://example.org/a", True),
        ("https://example.org/*", "https://example.orgs/a", False),
    ],
)
def test_addresses(rule: str, url: str, fits: bool) -> None:
    assert allows(f"WebFetch({rule})", "WebFetch", {"url": url}) is fits
    assert denies(f"WebFetch({rule})", "WebFetch", {"url": url}) is fits


@pytest.mark.parametrize("url", ["https://evil.test\\@example.org/", "https://example.org/ x", "nothing", "https://[x"])
def test_an_ambiguous_address(url: str) -> None:
    assert not allows("WebFetch(domain:example.org)", "WebFetch", {"url": url})
    assert denies("WebFetch(domain:other.test)", "WebFetch", {"url": url})


@pytest.mark.parametrize(
    ("tool", "given"), [("Mystery", {"command": "git x"}), ("Bash", {}), ("Bash", {"command": ["git"]})]
)
def test_an_unknown_argument(tool: str, given: dict[str, object]) -> None:
    assert not allows(f"{tool}(git *)", tool, given)
    assert denies(f"{tool}(git *)", tool, given)


@pytest.mark.parametrize(
    "rule", ["Bash", "Bash(git *)", "Bash(git:*)", "mcp__a__*", "*", "Bash(echo (x))", "Read(a b)"]
)
def test_valid_rules(rule: str) -> None:
    assert rule_error(rule) is None


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "empty"),
        ("  ", "empty"),
        (" Bash", "space"),
        ("Bash git", "Tool(argument)"),
        ("Bash(", "Tool(argument)"),
        ("Bash()", "Tool(argument)"),
        ("(git *)", "Tool(argument)"),
        ("Bash(git *", "Tool(argument)"),
        ("Bash(git *) x", "Tool(argument)"),
    ],
)
def test_invalid_rules(rule: str, words: str) -> None:
    assert words in (rule_error(rule) or "")


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("a*b", "ab", True),
        ("a*b", "axxb", True),
        ("a*a", "a", False),
        ("*b*", "abc", True),
        ("a*b*c", "acb", False),
        ("a*b*c", "a-b-c", True),
        ("ab*ba", "aba", False),
        ("**", "", True),
        ("[a]", "a", False),
        ("a.c", "abc", False),
    ],
)
def test_stars(pattern: str, text: str, fits: bool) -> None:
    assert glob_match(pattern, text) is fits


@pytest.mark.skipif(ON_WINDOWS, reason="asks the bash of a POSIX system")
def test_bash_runs_nothing_else_in_an_allowed_line(tmp_path: Path) -> None:
    """Lines put together from all that is awkward; those that `Bash(git *)` allows are run, and `pwn` never is."""
    for name, script in {"git": "exit 0", "pwn": f'echo "$0" >> "{tmp_path}/pwned"'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    shell = shutil.which("bash") or shutil.which("sh")
    assert shell is not None

    allowed = [line for line in awkward_lines(1500) if allows("Bash(git *)", *bash(line))]
    for line in allowed:
        subprocess.run(
            [shell, "-c", line],
            cwd=tmp_path,
            env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert not (tmp_path / "pwned").exists(), line

    assert len(allowed) > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["git", "pwn"]


def awkward_lines(number: int) -> list[str]:
    pieces = ["git", "git ", "pwn", " pwn ", ";", "&", "&&", "|", "\n", "'", '"', "\\", "#", " # ", " ", "$", "$'", "`"]
    pieces += ["$(", ")", "(", "{ ", "; }", "<", ">", ">/dev/null", "2>&1", "&>", "\\\n", "a", "x=1 ", "!", "="]
    pieces += ["\t", "\u00a0"]
    chosen = random.Random(5)
    return ["git " + "".join(chosen.choices(pieces, k=chosen.randint(1, 9))) for _ in range(number)]


def test_long_lines_are_read_in_one_pass() -> None:
    assert len(commands_in("git a; " * 20_000)) == 20_000
    with pytest.raises(UnparsableCommand):
        commands_in("git '" + '\\"' * 50_000)
