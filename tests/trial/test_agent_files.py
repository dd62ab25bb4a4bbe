"""Files for an agent over its checkout and in its home: it has them while it works, and they are in no diff."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from trial_bench import GIT, TrialBench

from systems import posix_only
from youbencha.log.results import ResultsBundle
from youbencha.spec.testcase import AgentSpec, TestCase
from youbencha.trial.run import run_trial

REPOSITORY = {"README.md": "the original\n", "AGENTS.md": "of the repository\n", "src.py": "A = 1\n"}
OVERLAY = {"AGENTS.md": "laid over\n", "docs/rules/one.md": "a rule\n", "bin/tool": "#!/bin/sh\necho tool\n"}


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
    git = subprocess.run([*GIT, "status", "--short"], cwd=done.tree, capture_output=True, text=True, check=True)
    assert git.stdout == " M src.py\n?? docs/\n"


HOSTILE = {
    "changed": "echo mine > AGENTS.md; echo mine > docs/rules/one.md; chmod 777 bin/tool",
    "deleted": "rm -r AGENTS.md docs bin",
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
