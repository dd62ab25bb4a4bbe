"""After a run in a container, git commands in `src-modified/` run nothing that a hostile agent has left there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from run_bench import RunBench

PLACES = {name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}

HOSTILE = r"""
set -e
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
arm() {
    mkdir -p "$1/hooks"
    for hook in post-index-change post-checkout pre-commit reference-transaction; do
        printf '#!/bin/sh\necho %s hook >> "%s"\n' "$1" "$PWNED" > "$1/hooks/$hook"; chmod 755 "$1/hooks/$hook"
    done
    for key in core.fsmonitor diff.external diff.x.textconv filter.x.clean filter.x.smudge alias.lg core.sshCommand; do
        git config --file "$1/config" "$key" "echo $1 $key >> $PWNED #"
    done
}
echo '* filter=x diff=x' > .gitattributes
echo 'TAX = 0.2' > src/prices.py
git commit -qam 'what the agent committed'
echo 'TAX = 0.3' > src/prices.py
for name in nested module linked; do
    git init -q $name; echo a > $name/a; git -C $name add a; git -C $name commit -qm a; git add $name 2> /dev/null
done
mkdir -p .git/modules; mv module/.git .git/modules/module; echo 'gitdir: ../.git/modules/module' > module/.git
mv linked/.git elsewhere; ln -s ../elsewhere linked/.git
for each in nested/.git .git/modules/module elsewhere; do echo b > a-change; arm $each; done
for each in nested module linked; do echo changed > $each/a; done
git config extensions.worktreeConfig true
arm .git
cp .git/config .git/config.worktree
rm -f .git/COMMIT_EDITMSG; ln -s "$PWNED" .git/COMMIT_EDITMSG; mkfifo .git/pipe
git clone -q --bare . bare.d; git --git-dir=bare.d config core.bare false; git --git-dir=bare.d config core.worktree .
mkdir apart; echo ref: refs/heads/x > apart/HEAD; echo ../bare.d > apart/commondir
arm bare.d
mkdir .git/rebase-merge; echo "exec echo rebase >> $PWNED" > .git/rebase-merge/git-rebase-todo
mkdir -p .git/objects/info; echo /somewhere/objects > .git/objects/info/alternates
"""

LOOKS = (
    ("rebase", "--continue"),
    ("status",),
    ("status", "--short"),
    ("diff",),
    ("diff", "HEAD"),
    ("log", "-p"),
    ("add", "src/prices.py"),
    ("-c", "user.name=Me", "-c", "user.email=me@example.org", "commit", "-m", "mine"),
)


def look(directory: Path, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_PAGER": "cat"}
    return subprocess.run(
        ["git", *arguments], cwd=directory, env=env, capture_output=True, text=True, timeout=60, check=False
    )


async def test_git_runs_no_program_that_the_agent_left(runs: RunBench, image: str) -> None:
    pwned = runs.root / "pwned"
    sandbox = {"type": "docker", "image": image}
    done = await runs.run(
        runs.program(HOSTILE, env={"PWNED": str(pwned)}), env=PLACES, sandbox=sandbox, evaluators=["git-diff"]
    )
    assert done.done.code == 0, done.done.err
    assert done.bundle.agent is not None
    assert done.bundle.agent.status == "success", done.bundle.agent.errors
    assert "+TAX = 0.3" in done.diff  # the changes were determined before anything was removed
    assert 'fsmonitor = "echo bare.d' in done.diff  # also those in a bare repository
    for directory in (done.tree, *(done.tree / name for name in ("nested", "module", "linked", "bare.d", "apart"))):
        for arguments in LOOKS:
            look(directory, *arguments, home=runs.home)
    assert not os.path.lexists(pwned), pwned.read_text()

    assert "what the agent committed" in look(done.tree, "log", home=runs.home).stdout  # its commits are still there
    assert look(done.tree / "nested", "status", "--short", home=runs.home).stdout == " M a\n"
    assert "what the agent committed" in look(done.tree / "bare.d", "log", home=runs.home).stdout
    left = [path for path in (done.tree / ".git").rglob("*") if not path.is_file() and not path.is_dir()]
    assert [*left, *(done.tree / ".git").glob("hooks"), *(done.tree / ".git").glob("modules")] == []
