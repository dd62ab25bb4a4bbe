"""Files for an agent over its checkout and in its home: it has them while it works, and they are in no diff."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from trial_bench import TrialBench

from git_repositories import git
from systems import posix_only
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.spec.testcase import AgentSpec, TestCase
from youbencha.store.bundle import ResultsBundle
from youbencha.trial.agent_files import files_digest
from youbencha.trial.run import run_trial
from youbencha.workspace.overlay import MAX_BYTES, MAX_FILES, GivenFile, Overlay, copy_given, given_files

REPOSITORY = {
    "README.md": "the original\n",
    "AGENTS.md": "of the repository\n",
    "src.py": "A = 1\n",
    "lib/one.md": "1\n",
}
OVERLAY = {
    "AGENTS.md": "laid over\n",
    "lib/one.md": "laid\n",
    "docs/rules/one.md": "a rule\n",
    "bin/tool": "#!/bin/sh\necho tool\n",
}


def write(top: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top


def overlaid_case(trials: TrialBench, program: str, **agent: Any) -> TestCase:
    """A case whose agent has the files of `OVERLAY` over its checkout."""
    write(trials.root / "overlay", OVERLAY)
    (trials.root / "overlay/bin/tool").chmod(0o755)
    case = trials.case(program, repo=trials.repository(files=REPOSITORY))
    given = {**case.agent.model_dump(), "files": "overlay", **agent}
    return case.model_copy(update={"agent": AgentSpec.model_validate(given)})


class Ran:
    def __init__(self, run: Path, bundle: ResultsBundle) -> None:
        self.tree = run / "src-modified"
        self.bundle = bundle
        self.diff = (run / "artifacts" / "git-diff.patch").read_text()
        self.output = "".join(path.read_text() for path in (run / "artifacts" / "command-logs").glob("*.log"))

    def files(self) -> dict[str, str]:
        paths = (path for path in self.tree.rglob("*") if ".git" not in path.parts and not path.is_dir())
        return {path.relative_to(self.tree).as_posix(): path.read_text() for path in paths}


async def ran(trials: TrialBench, case: TestCase) -> Ran:
    host = trials.host()
    result = await run_trial(trials.plan(host, case), host, directory=trials.runs / "one")
    trials.assert_nothing_is_left()
    return Ran(trials.runs / "one", result.bundle)


async def test_the_agent_has_the_files_and_the_diff_does_not(trials: TrialBench) -> None:
    program = (
        "import pathlib, subprocess\n"
        "print(pathlib.Path('AGENTS.md').read_text(), pathlib.Path('docs/rules/one.md').read_text())\n"
        "print(subprocess.run(['bin/tool'], capture_output=True, text=True).stdout)\n"
        "status = subprocess.run(['git', 'status', '--short'], capture_output=True, text=True).stdout\n"
        "print('status:', status, ':end')\n"
        "pathlib.Path('src.py').write_text('A = 2\\n')\n"
        "pathlib.Path('docs/mine.md').write_text('mine\\n')\n"
    )
    done = await ran(trials, overlaid_case(trials, program))
    assert "laid over" in done.output
    assert "a rule" in done.output
    assert "tool\n" in done.output
    assert "status:  :end" in done.output  # they are not shown as the agent's changes
    assert done.files() == {**REPOSITORY, "src.py": "A = 2\n", "docs/mine.md": "mine\n"}
    assert not (done.tree / "docs/rules").exists()
    assert not (done.tree / "bin").exists()
    assert "+A = 2" in done.diff
    assert "+mine" in done.diff
    assert "AGENTS.md" not in done.diff
    assert "rule" not in done.diff
    assert git(done.tree, "status", "--short").split() == ["M", "src.py", "??", "docs/"]


HOSTILE = {
    "changed": "echo mine > AGENTS.md; echo mine > docs/rules/one.md; chmod 777 bin/tool",
    "deleted": "rm -r AGENTS.md docs bin lib",
    "by links": "ln -sf $O/rules/one.md AGENTS.md; ln -sf $O/rules/one.md docs/rules/one.md",
    "by a link to a directory": "rm -r docs; ln -s $O docs; rm AGENTS.md; ln -s $O/rules AGENTS.md",
    "by directories": "rm AGENTS.md bin/tool; mkdir -p AGENTS.md/a/b bin/tool; touch AGENTS.md/a/b/c bin/tool/x",
    "by pipes": "rm AGENTS.md bin/tool; mkfifo AGENTS.md bin/tool",
    "committed": "git add -Af . && git -c user.name=a -c user.email=a@b commit -qm all",
    "without rights": "chmod 0 AGENTS.md docs/rules/one.md; chmod 0 docs/rules bin",
    "without its repository": "rm -rf .git",
    "hard links": "ln -f README.md AGENTS.md",
}


@posix_only("links and pipes")
@pytest.mark.parametrize("what", HOSTILE)
async def test_the_files_are_taken_away_whatever_the_agent_did(trials: TrialBench, what: str) -> None:
    outside = write(trials.root / "outside", {"rules/one.md": "not the agent's"})
    line = f"O={outside}; {HOSTILE[what]}"
    case = overlaid_case(trials, f"import subprocess; subprocess.run(['sh', '-c', {line!r}], check=True)")
    host = trials.host()
    await run_trial(trials.plan(host, case), host, directory=trials.runs / "one")
    assert (outside / "rules/one.md").read_text() == "not the agent's"  # no link was followed
    tree = trials.runs / "one/src-modified"
    done = {
        path.relative_to(tree).as_posix(): path.read_text()
        for path in tree.rglob("*")
        if ".git" not in path.parts and path.is_file() and not path.is_symlink()
    }
    assert done == REPOSITORY
    assert not (tree / "AGENTS.md").is_symlink()
    diff = (trials.runs / "one/artifacts/git-diff.patch").read_text()
    assert "AGENTS.md" not in diff
    assert "tool" not in diff
    assert ("docs" in diff) == (what == "by a link to a directory")  # that link is the agent's own work


@posix_only("a signal")
async def test_an_interrupted_trial_saves_a_diff_without_them(trials: TrialBench) -> None:
    program = (
        "import pathlib, time; pathlib.Path('src.py').write_text('A = 2\\n'); print('x', flush=True); time.sleep(600)"
    )
    case = overlaid_case(trials, program)
    host = trials.host()
    task = asyncio.create_task(run_trial(trials.plan(host, case), host, directory=trials.runs / "one"))
    tree = trials.runs / "one/src-modified"
    async with asyncio.timeout(60):
        while not (tree / "src.py").is_file() or (tree / "src.py").read_text() != "A = 2\n":
            await asyncio.sleep(0.02)
    assert (tree / "AGENTS.md").read_text() == "laid over\n"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    diff = (trials.runs / "one/artifacts/git-diff.patch").read_text()
    assert "+A = 2" in diff
    assert "AGENTS.md" not in diff
    assert "rules" not in diff
    assert (tree / "AGENTS.md").read_text() == "of the repository\n"


async def test_interrupted_while_they_are_laid(trials: TrialBench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def lays_slowly(overlay: Overlay, file: GivenFile) -> None:
        begun.set()
        goes_on.wait(60)
        lays(overlay, file)

    lays = Overlay._put
    monkeypatch.setattr(Overlay, "_put", lays_slowly)
    host = trials.host()
    plan = trials.plan(host, overlaid_case(trials, "pass"))
    task = asyncio.create_task(run_trial(plan, host, directory=trials.runs / "one"))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=0.5)
    assert not done  # what is laid meanwhile must be taken away, too
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (trials.runs / "one/artifacts/git-diff.patch").read_text() == ""
    assert not (trials.runs / "one/src-modified/docs").exists()


async def test_a_link_of_the_repository_is_put_back(trials: TrialBench) -> None:
    case = overlaid_case(trials, "open('AGENTS.md', 'a').write('x'); open('src.py', 'w').write('A = 2\\n')")
    repository = Path(case.repo)
    (repository / "AGENTS.md").unlink()
    (repository / "AGENTS.md").symlink_to("README.md")
    git(repository, "commit", "-qam", "a link")
    done = await ran(trials, case)
    assert (done.tree / "AGENTS.md").readlink() == Path("README.md")
    assert (done.tree / "README.md").read_text() == "the original\n"
    assert done.diff.count("diff --git") == 1


async def test_a_file_of_the_repository_is_in_the_way(trials: TrialBench) -> None:
    case = overlaid_case(trials, "pass")
    write(trials.root / "overlay", {"src.py/one.md": "x"})
    host = trials.host()
    with pytest.raises(YouBenchaError, match=r"src.py is in the way") as raised:
        await run_trial(trials.plan(host, case), host, directory=trials.runs / "one")
    assert raised.value.code == "AGENT_FILES_INVALID"
    assert not (trials.runs / "one").exists()
    trials.assert_nothing_is_left()


async def test_files_of_hooks_are_put_back(trials: TrialBench) -> None:
    """A hook's file that git ignores is in no snapshot, and still is what it was."""
    case = overlaid_case(trials, "print(open('.env').read())")
    write(trials.root / "overlay", {".env": "KEY=laid\n", ".gitignore": ".env\n"})
    (Path(case.repo) / ".gitignore").write_text(".env\n")
    git(Path(case.repo), "add", "-A")
    git(Path(case.repo), "commit", "-qm", "ignored")
    hook = {"name": "script", "config": {"command": "echo KEY=hook > .env; chmod 755 .env"}}
    done = await ran(trials, TestCase.model_validate({**case.model_dump(), "pre_execution": [hook]}))
    assert "KEY=laid" in done.output
    assert (done.tree / ".env").read_text() == "KEY=hook\n"
    assert (done.tree / ".env").stat().st_mode & 0o777 == 0o755
    assert done.diff == ""


async def test_the_home_is_a_new_one_with_the_files(trials: TrialBench) -> None:
    write(trials.root / "given", {".config/tool.toml": "x = 1\n", "bin/run": "#!/bin/sh\n"})
    (trials.root / "given/bin/run").chmod(0o755)
    (trials.home / "own.txt").write_text("the user's")
    program = (
        "import os, pathlib; home = pathlib.Path.home()\n"
        "print((home / '.config/tool.toml').read_text(), os.access(home / 'bin/run', os.X_OK))\n"
        "print((home / 'own.txt').exists()); (home / '.config/tool.toml').write_text('changed')\n"
    )
    done = await ran(trials, overlaid_case(trials, program, home="given"))
    assert "x = 1\n True\nFalse\n" in done.output
    assert (trials.root / "given/.config/tool.toml").read_text() == "x = 1\n"
    assert {path.name for path in trials.home.iterdir()} == {".youbencharc", "own.txt"}


# What is refused before anything runs.


def claude(trials: TrialBench, **agent: Any) -> dict[str, Any]:
    write(trials.root, {"rules.md": "be kind\n", "skill/SKILL.md": "a skill", "plugin/skills/a/SKILL.md": "a"})
    return {"type": "claude-code", "config": {"prompt": "Do it."}, **agent}


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing": ({"skills": ["none"]}, "agent.skills.0", "there is no directory"),
    "not a skill": ({"skills": ["plugin"]}, "agent.skills.0", "there is no SKILL.md in"),
    "not a plugin": ({"plugins": ["skill"]}, "agent.plugins.0", "there is no .claude-plugin/plugin.json or"),
    "the same twice": ({"skills": ["skill", "./skill/../skill"]}, "agent.skills.1", "has the same name as another"),
    "no file": ({"instructions": "~nobody-here/a\0b"}, "agent.instructions", "cannot be read"),
    "a directory": ({"instructions": "skill"}, "agent.instructions", "is not a file"),
    "not this agent": ({"type": "aider", "skills": ["skill"]}, "agent.skills.0", "aider cannot be given skills"),
    "no agent of ours": ({"type": "command", "instructions": "rules.md"}, "agent.instructions", "cannot be given"),
    "codex": ({"type": "codex", "plugins": ["plugin"]}, "agent.plugins.0", "codex cannot be given plugins"),
    "elsewhere": (
        {"instructions": "rules.md", "env": {"CLAUDE_CONFIG_DIR": "/x"}},
        "agent.env.CLAUDE_CONFIG_DIR",
        "new",
    ),
    "another home": ({"home": "skill", "env": {"HOME": "/x"}}, "agent.env.HOME", "cannot be combined with `home`"),
    "hidden": (
        {"skills": ["skill"], "config": {"prompt": "Do it.", "setting_sources": ["project"]}},
        "agent.config.setting_sources",
        "the agent would not read it",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_agent_cannot_have_is_refused(trials: TrialBench, what: str) -> None:
    given, path, message = REFUSED[what]
    agent = claude(trials, **given)
    if agent["type"] == "command":
        agent["config"] = {"command": ["true"]}
    case = TestCase.model_validate({"repo": ".", "agent": agent, "evaluators": ["git-diff"]})
    with pytest.raises(ConfigError) as raised:
        trials.plan(trials.host({"ANTHROPIC_API_KEY": "sk-ant-x", "OPENAI_API_KEY": "sk-x"}), case)
    (problem,) = raised.value.problems
    assert problem.path == path
    assert message in problem.message


@pytest.mark.parametrize(
    ("home", "message"), [("own", "needs a new home, but the sandbox has `home: own`"), ("auto", "may need the login")]
)
def test_the_users_own_home_is_never_used(trials: TrialBench, home: str, message: str) -> None:
    write(trials.home, {".claude/.credentials.json": "{}"})
    case = {"repo": ".", "agent": claude(trials, instructions="rules.md"), "evaluators": ["git-diff"]}
    sandbox = {"sandbox": {"type": "local", "home": home}, "gateway": "none"}
    with pytest.raises(ConfigError) as raised:
        trials.plan(trials.host(), TestCase.model_validate({**case, **sandbox}))
    (problem,) = raised.value.problems
    assert (problem.path, message in problem.message) == ("agent.instructions", True)
    plan = trials.plan(trials.host(), TestCase.model_validate({**case, "sandbox": {"type": "local", "home": "fresh"}}))
    assert plan.case.agent.instructions == "rules.md"


@posix_only("links and pipes")
@pytest.mark.parametrize("what", ["outside", "broken", "loop", "directory", "pipe", "git", "in .git"])
def test_links_out_of_the_directory_are_refused(tmp_path: Path, what: str) -> None:
    top = write(tmp_path / "top", {"a.md": "a", "sub/b.md": "b"})
    write(tmp_path, {"secret": "s"})
    if what == "pipe":
        os.mkfifo(top / "link")
    elif what == "git":
        write(top, {"sub/.GIT/config": "x"})
    else:
        targets = {"outside": "../secret", "broken": "none", "loop": "link", "directory": "sub", "in .git": ".git/x"}
        write(top, {".git/x": "y"})
        (top / "link").symlink_to(targets[what])
    with pytest.raises(YouBenchaError) as raised:
        given_files(top, git_refused=what == "git")
    assert raised.value.code == "AGENT_FILES_INVALID"


@posix_only("links")
def test_a_link_to_a_file_inside_becomes_that_file(tmp_path: Path) -> None:
    top = write(tmp_path / "top", {"AGENTS.md": "rules", "sub/b.md": "b", ".git/config": "left out"})
    (top / "CLAUDE.md").symlink_to("AGENTS.md")
    (top / "sub/up.md").symlink_to("../AGENTS.md")
    (tmp_path / "link").symlink_to(top)
    assert [file.path for file in given_files(tmp_path / "link")] == ["AGENTS.md", "CLAUDE.md", "sub/b.md", "sub/up.md"]
    copy_given(given_files(top), tmp_path / "copy")
    assert (tmp_path / "copy/sub/up.md").read_text() == "rules"
    assert not (tmp_path / "copy/CLAUDE.md").is_symlink()


def test_the_limits_of_a_directory(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(YouBenchaError, match="has more than 256 MiB"):
        given_files(tmp_path)
    (tmp_path / "large").unlink()
    for number in range(MAX_FILES + 1):
        (tmp_path / str(number)).touch()
    with pytest.raises(YouBenchaError, match="has more than 10,000 files"):
        given_files(tmp_path)


def test_the_digest_is_of_contents_only(tmp_path: Path) -> None:
    def digest(**changes: Any) -> str | None:
        agent = {"type": "claude-code", "instructions": "rules.md", "skills": ["skill"], "config": {}, **changes}
        return files_digest(AgentSpec.model_validate(agent), tmp_path)

    write(tmp_path, {"rules.md": "be kind\n", "same.md": "be kind\n", "skill/SKILL.md": "a", "other/SKILL.md": "a"})
    write(tmp_path, {"mcp.json": "{}"})
    first = digest()
    assert first == "99803f8343b904e8fd77441977bbf963764ea41a5d51383e6ae467c11d8b1e2f"  # on every machine
    os.utime(tmp_path / "rules.md", (1, 1))
    (tmp_path / "skill/SKILL.md").chmod(0o600)
    assert digest() == first
    assert digest(instructions="same.md") == first
    assert digest(instructions=None, skills=()) is None
    changed = [digest(skills=["other"]), digest(skills=()), digest(config={"mcp_config": "mcp.json"})]
    (tmp_path / "skill/SKILL.md").chmod(0o755)
    changed.append(digest())
    write(tmp_path, {"skill/SKILL.md": "b"})
    changed.append(digest())
    assert len({first, *changed}) == 1 + len(changed)
