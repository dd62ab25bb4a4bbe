"""A whole `yb run`, compared with the bare `git clone` + agent + `git diff` that it contains."""

from __future__ import annotations

import concurrent.futures
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.measure import ComponentMissing, Figure, env_as_installed, installed_yb, ms, timed

_ROUNDS = 15
_AT_ONCE = 8
_GATEWAYS = ("none", "builtin")
"""The gateways of our runs. The original has none."""
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="youbencha-bench-") as name:
        project = Project(Path(name))
        project.run()  # fills the mirror cache: later runs matter to users
        ours, bare = [], []
        for _ in range(_ROUNDS):  # alternating, so that both are measured under the same conditions
            bare.append(timed(project.bare))
            ours.append(timed(project.run))
        above = statistics.median(ours) - statistics.median(bare)
        yield Figure(
            "whole yb run (git-diff, instant agent)",
            f"{ms(statistics.median(ours))}, {ms(above)} above",
            f"clone + agent + diff {ms(statistics.median(bare))}",
            "",
            None,
        )
        rss, idle = project.peak_rss_kb(project.command()), project.peak_rss_kb([sys.executable, "-c", "pass"])
        yield Figure(
            "peak RSS of yb run",
            f"{rss / 1024:.0f} MB",
            f"python -c pass {idle / 1024:.0f} MB",
            "–",
            None,
        )
        one = timed(project.run)
        eight = timed(project.many)
        yield Figure(
            f"{_AT_ONCE} concurrent yb runs",
            ms(eight),
            f"one after the other {ms(_AT_ONCE * one)}",
            "≤ 1×",
            eight <= _AT_ONCE * one,
        )
        yield from beside_the_original(project)


def beside_the_original(project: Project) -> Iterator[Figure]:
    """Compare a whole run, without and with a gateway, with one of the original youBencha, alternating."""
    original = Original(project, original_cli())
    original.run()
    theirs = []
    ours: dict[str, list[float]] = {gateway: [] for gateway in _GATEWAYS}
    for _ in range(_ROUNDS):
        theirs.append(timed(original.run))
        for gateway, times in ours.items():
            times.append(timed(partial(project.run, "--gateway", gateway)))
    other = statistics.median(theirs)
    for gateway in _GATEWAYS:
        mine = statistics.median(ours[gateway])
        yield Figure(
            f"whole yb run --gateway {gateway}",
            f"{ms(mine)}, {mine / other:.2f}×",
            f"original youBencha {ms(other)}",
            "≤ 1×",
            mine <= other,
        )


def original_cli() -> Path:
    """The original's entry point, in the checkout that `YOUBENCHA_ORIGINAL` names."""
    checkout = os.environ.get("YOUBENCHA_ORIGINAL")
    cli = Path(checkout or ".", "dist", "cli", "index.js").absolute()
    if not checkout or not cli.is_file():
        raise ComponentMissing(
            "the comparison with the original youBencha: build it (github:youbencha/youbencha-cli, "
            "`npm ci && npm run build`) and set YOUBENCHA_ORIGINAL to its checkout"
        )
    return cli


class Original:
    """The original youBencha on the same repository, with a `claude` that exits at once."""

    def __init__(self, project: Project, cli: Path) -> None:
        self._command = ["node", str(cli), "run", "-c", "original.yaml"]
        self._project = project
        bin_dir = project.root / "bin"
        bin_dir.mkdir()
        claude = bin_dir / "claude"
        claude.write_text(
            "#!/bin/sh\n"
            "case \"$*\" in *--version*) echo '2.0.62 (Claude Code)'; exit;; esac\n"
            "echo 'value = 0' >> file1.py\n"
            'echo \'{"type":"system","subtype":"init","session_id":"s","model":"m"}\'\n'
            'echo \'{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s"}\'\n'
        )
        claude.chmod(0o755)
        url = "https://github.com/bench/repository.git"  # it accepts only such URLs; git rewrites it, see below
        (project.root / "original.yaml").write_text(
            f"name: bench\ndescription: bench\nrepo: {url}\nbranch: main\n"
            "agent:\n  type: claude-code\n  config:\n    prompt: Work.\n"
            "evaluators:\n  - name: git-diff\n"
        )
        self._env = {
            **project.env,
            "PATH": f"{bin_dir}{os.pathsep}{project.env['PATH']}",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{project.repository}.insteadOf",
            "GIT_CONFIG_VALUE_0": url,
        }

    def run(self) -> None:
        subprocess.run(
            self._command,
            cwd=self._project.root,
            env=self._env,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


class Project:
    """A small repository, an agent that exits at once, and a test case."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repository = root / "repository"
        self.repository.mkdir()
        for number in range(20):
            (self.repository / f"file{number}.py").write_text(f"value = {number}\n" * 50)
        for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "start")):
            subprocess.run([*_GIT, *arguments], cwd=self.repository, check=True)
        self.agent = root / "agent.sh"
        self.agent.write_text("#!/bin/sh\necho 'value = 0' >> file1.py\n")
        self.agent.chmod(0o755)
        self.case = root / "testcase.yaml"
        self.case.write_text(
            f"name: bench\nrepo: {self.repository}\n"
            f"gateway: none\nagent:\n  type: command\n  config:\n    command: [{self.agent}]\n    prompt: Work.\n"
            "evaluators:\n  - name: git-diff\n"
        )
        self.env = {
            **env_as_installed(),
            "HOME": str(root),
            "XDG_CACHE_HOME": str(root / "cache"),
            "ANTHROPIC_API_KEY": "sk-not-used",
        }
        self._clones = 0

    def command(self) -> list[str]:
        return [installed_yb(), "run", "-c", str(self.case), "--quiet"]

    def run(self, *options: str) -> None:
        subprocess.run(
            [*self.command(), *options],
            cwd=self.root,
            env=self.env,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def many(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            for done in [pool.submit(self.run) for _ in range(_AT_ONCE)]:
                done.result()

    def bare(self) -> None:
        self._clones += 1
        clone = self.root / f"bare{self._clones}"
        subprocess.run(["git", "clone", "-q", str(self.repository), str(clone)], check=True)
        subprocess.run([str(self.agent)], cwd=clone, check=True)
        subprocess.run(["git", "diff"], cwd=clone, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def peak_rss_kb(self, command: list[str]) -> int:
        """Peak memory of the process, without its children."""
        script = (
            "import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL);"
            "print(os.wait4(p.pid, 0)[2].ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, *command], cwd=self.root, env=self.env, check=True, stdout=subprocess.PIPE
        )
        return int(done.stdout)
