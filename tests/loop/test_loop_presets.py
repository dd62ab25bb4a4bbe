"""Presets with hats, run to their end by `ralph run`: the agent is a program that calls the real `ralph`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

RALPH = Path(sysconfig.get_path("scripts")) / ("ralph.exe" if sys.platform == "win32" else "ralph")

PRESET = """\
# As presets of Ralph are written: two hats, keyed tasks, a promise of its own, required events.
event_loop:
  prompt_file: "PROMPT.md"
  completion_promise: "SHIP_IT"
  required_events: ["change.made", "review.passed"]
  starting_event: "work.start"
  max_iterations: 12
  enforce_hat_scope: {scope}
  checkpoint_interval: 0
cli:
  backend: "custom"
  command: {python}
  args: [{agent}]
core:
  specs_dir: ".ralph/specs/"
hats:
  maker:
    name: "Maker"
    description: "Makes one change."
    triggers: ["work.start", "review.rejected"]
    publishes: ["change.made", "change.blocked"]
    default_publishes: "change.blocked"
    instructions: |
      ## MAKER MODE
      Call `ralph tools task ensure`, then `"$RALPH_BIN" emit change.made`.
  checker:
    name: "Checker"
    description: "Reads the change."
    triggers: ["change.made"]
    publishes: ["review.rejected", "review.passed", "SHIP_IT"]
    instructions: |
      ## CHECKER MODE
      Reject it, or emit `SHIP_IT`.
"""

AGENT = """\
import json, os, re, subprocess, sys

prompt = sys.argv[-1]
found = re.search(r"^# Your role: (.+)$", prompt, re.MULTILINE)
role = found[1] if found else None
with open("calls.jsonl", "a") as calls:
    calls.write(json.dumps({"role": role, "prompt": prompt}) + "\\n")
number = len(open("calls.jsonl").readlines())


def ralph(*arguments):
    done = subprocess.run([os.environ["RALPH_BIN"], *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def task():
    return ralph("tools", "task", "ensure", "Make the change", "--key", "change", "-p", "1", "--format", "quiet")


print(f"I am {role}, and this is my turn number {number}.")
exec(open("script.py").read())
"""

SCRIPT = """
if role == "Maker" and number == 1:
    pass  # forgets to publish
elif role == "coordinator":
    assert "change.blocked" in prompt
    ralph("emit", "work.start", "try again")
elif role == "Maker":
    ralph("tools", "task", "start", task())
    open("change.txt", "a").write("x")
    ralph("emit", "change.made", f"task_id={task()} part {number}")
elif role == "Checker" and open("change.txt").read() == "x":
    print("SHIP_IT would be wrong here.")
    ralph("emit", "review.rejected", "one x is not enough")
else:
    ralph("tools", "task", "close", task())
    ralph("tools", "memory", "add", "A change needs two x.", "-t", "decision")
    ralph("emit", "review.passed")
    ralph("emit", "SHIP_IT", "two x")
"""


class Done(NamedTuple):
    code: int
    calls: list[dict[str, Any]]
    output: str
    project: Path

    @property
    def roles(self) -> list[str]:
        return [call["role"] for call in self.calls]


def run(project: Path, script: str, *, scope: bool = False, preset: str = PRESET) -> Done:
    project.mkdir(exist_ok=True)
    (project / "agent.py").write_text(AGENT)
    (project / "script.py").write_text(script)
    (project / "PROMPT.md").write_text("Put two x into change.txt.\n")
    words = {"python": json.dumps(sys.executable), "agent": json.dumps("agent.py"), "scope": str(scope).lower()}
    (project / "ralph.yml").write_text(preset.format(**words))
    return go(project)


def go(project: Path, *arguments: str) -> Done:
    done = subprocess.run(
        [RALPH, "run", "--no-tui", *arguments], cwd=project, capture_output=True, text=True, timeout=120, check=False
    )
    calls = [json.loads(line) for line in (project / "calls.jsonl").read_text().splitlines()]
    return Done(done.returncode, calls, done.stdout + done.stderr, project)


def test_a_preset_with_two_hats_runs_to_its_end(tmp_path: Path) -> None:
    """Stopped by a limit before the end; then it goes on with the event that was pending."""
    stopped = run(tmp_path / "project", SCRIPT, preset=PRESET.replace("max_iterations: 12", "max_iterations: 4"))
    assert (stopped.code, stopped.roles[3:]) == (2, ["Checker"]), stopped.output
    done = go(tmp_path / "project", "--continue", "--max-iterations", "12")
    assert done.code == 0, done.output
    assert done.roles == ["Maker", "coordinator", "Maker", "Checker", "Maker", "Checker"]
    check_prompts([call["prompt"] for call in done.calls])
    check_files(done.project)


def test_the_same_preset_in_a_container(tmp_path: Path, engine: object, image: str) -> None:
    """There, `ralph` is a script that asks the loop."""
    sandbox = f"sandbox: {{{{type: docker, image: {json.dumps(image)}}}}}\ncore:\n"
    preset = PRESET.replace("command: {python}", "command: python3").replace("core:\n", sandbox)
    done = run(tmp_path / "project", SCRIPT, preset=preset)
    assert (done.code, len(done.roles)) == (0, 6), done.output
    check_prompts([call["prompt"] for call in done.calls])
    check_files(done.project)


def check_prompts(prompts: list[str]) -> None:
    """Each hat gets its instructions and its events."""
    first, coordinator, _, checker, again, _ = prompts
    assert "MAKER MODE" in first
    assert "CHECKER MODE" not in first
    assert "- `change.made`: received by checker" in first
    assert "whose turn published nothing" in coordinator
    assert "CHECKER MODE" in checker
    assert "part 3" in checker
    assert "(in progress, priority 1): Make the change" in checker
    assert "one x is not enough" in again


def check_files(project: Path) -> None:
    """What agents wrote is where presets expect it."""
    ralph = project / ".ralph"
    events = project / (ralph / "current-events").read_text().strip()
    topics = [json.loads(line)["topic"] for line in events.read_text().splitlines()]
    assert topics == ["work.start", "change.made", "review.rejected", "change.made", "review.passed", "SHIP_IT"]
    (task,) = (json.loads(line) for line in (ralph / "agent" / "tasks.jsonl").read_text().splitlines())
    assert (task["key"], task["status"]) == ("change", "closed")
    assert "A change needs two x." in (ralph / "agent" / "memories.md").read_text()


EAGER = """
if role == "Maker" and number == 1:
    task()
    ralph("emit", "change.made")
elif role == "Checker" and number == 2:
    ralph("emit", "SHIP_IT")
elif number == 3:
    assert "never published: review.passed" in prompt, prompt
    assert "Make the change" in prompt.split("# Not accepted as done")[1].split("\\n# ")[0], prompt
    ralph("tools", "task", "close", task())
    ralph("emit", "review.passed")
    print("SHIP_IT")
"""


def test_a_claim_without_the_required_events_or_with_open_tasks_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "project", EAGER)
    assert (done.code, done.roles) == (0, ["Maker", "Checker", "coordinator"]), done.output


SILENT = """
if role == "Maker":
    print("I did nothing at all.")
elif role == "coordinator":
    ralph("emit", "work.start")
"""


def test_defaults_alone_never_complete(tmp_path: Path) -> None:
    """Issue 187 of the original."""
    preset = PRESET.replace('default_publishes: "change.blocked"', 'default_publishes: "SHIP_IT"')
    preset = preset.replace('required_events: ["change.made", "review.passed"]\n  ', "")
    done = run(tmp_path / "project", SILENT, preset=preset.replace("max_iterations: 12", "max_iterations: 3"))
    assert (done.code, {*done.roles}) == (2, {"Maker"}), done.output


OUT_OF_SCOPE = """
if number == 1:
    ralph("emit", "SHIP_IT")
    ralph("emit", "review.passed")
    print("SHIP_IT")
elif number == 2:
    assert "maker.scope_violation" in prompt, prompt
    ralph("emit", "change.made")
elif role == "Checker":
    ralph("emit", "review.passed")
    ralph("emit", "SHIP_IT")
"""


def test_a_hat_cannot_publish_what_is_not_its_own(tmp_path: Path) -> None:
    done = run(tmp_path / "project", OUT_OF_SCOPE, scope=True)
    assert (done.code, done.roles[-1]) == (0, "Checker"), done.output
    assert len(done.roles) <= 4


def test_the_agent_finds_ralph_on_its_path(tmp_path: Path) -> None:
    script = 'import shutil; assert os.path.samefile(shutil.which("ralph"), os.environ["RALPH_BIN"])\n'
    script += 'ralph("emit", "review.passed"); ralph("emit", "change.made"); ralph("emit", "SHIP_IT")'
    done = run(tmp_path / "project", script)
    assert done.code == 0, done.output
    assert os.environ.get("RALPH_BIN") is None
