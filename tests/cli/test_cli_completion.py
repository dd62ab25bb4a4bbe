"""Shell completion, in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from yb import PATIENCE_S, SCRIPT, yb

BASH = shutil.which("bash")
OFFERED = {
    "yb in": ["init", "install-agents"],
    "yb agents in": ["install"],
    "yb completion z": ["zsh"],
    "yb init --fo": ["--force"],
    "yb nothing-like-this": [],
}
# What bash does when a person presses Tab: it calls the function that `complete` names for this program.
PRESS_TAB = """
source <(yb completion bash)
handler=$(complete -p yb | sed 's/.*-F \\([^ ]*\\).*/\\1/')
while read -r -a COMP_WORDS; do
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    COMPREPLY=()
    "$handler" yb "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}" < /dev/null
    echo "${COMPREPLY[*]}"
done
"""


@pytest.mark.skipif(BASH is None or os.name == "nt", reason="needs bash")
def test_completions_in_bash(tmp_path: Path) -> None:
    assert BASH
    path = os.pathsep.join((str(SCRIPT.parent), os.environ["PATH"]))
    done = subprocess.run(
        [BASH, "--norc", "--noprofile", "-c", PRESS_TAB],
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
        input="".join(f"{words}\n" for words in OFFERED),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = [sorted(line.split()) for line in done.stdout.splitlines()]
    assert dict(zip(OFFERED, answers, strict=True)) == OFFERED


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_each_shell_has_its_script(shell: str) -> None:
    done = yb("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_YB_COMPLETE" in done.stdout
    assert f"complete_{shell}" in done.stdout


def test_an_unknown_shell() -> None:
    done = yb("completion", "tcsh")
    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish', 'powershell'" in done.stderr
