"""What users of Ralph bring along: presets, options, built-in hats and examples of its docs."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from claude_loop import ClaudeProject
from loop_bench import RALPH, LoopBench
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from agent_clis import NEWEST
from claude_bench import API_KEY, ClaudeBench, bash, prompt_of, says, script, versions
from originals import original
from systems import posix_only
from yb import yb
from youbencha.errors import ConfigError
from youbencha.loop.presets import PRESETS, preset_text
from youbencha.scripted_model import ScriptedModel
from youbencha.spec.loop_loader import load_loop_file

OF_RALPH = ("autoresearch", "code-assist", "debug", "pdd-to-code-assist", "research", "review")

KEYS_IN_ITS_DOCS = """\
name: "Ship"
description: "Two hats."
preset: code-review
cli:
  backend: "custom"
  custom_command: "my-ai-cli"
  prompt_mode: "arg"
adapters:
  kiro: {enabled: true, timeout: 600, args: [], env: {}}
  acp:
    enabled: true
    tool_permissions:
      agent_command: gemini
      permission_allowlist: ["fs/read_text_file:*.py"]
tasks: {enabled: true, path: .agent/tasks.jsonl}
memories: {enabled: true, path: .agent/memories.md}
hats:
  builder: {triggers: ["build.start"], publishes: ["build.done"]}
  reviewer:   # nothing but a comment
"""


def test_keys_in_the_docs_of_ralph_are_known(tmp_path: Path) -> None:
    file = tmp_path / "ralph.yml"
    file.write_text(KEYS_IN_ITS_DOCS)
    loaded = load_loop_file(file)
    assert (loaded.spec.cli.command, list(loaded.spec.hats)) == ("my-ai-cli", ["builder", "reviewer"])
    assert {warning.path for warning in loaded.warnings} == {
        "preset", "memories.path", "tasks.path", "adapters.kiro.timeout", "adapters.acp.tool_permissions",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["ralph.yml", "mine.yaml"])
@pytest.mark.parametrize("text", ["tasks: {enabled: true}", "memories: {inject: none}", "RObot: {enabled: false}"])
def test_a_loop_is_validated_as_one(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    done = yb("validate", "-c", name, cwd=tmp_path)
    assert (done.returncode, "the backend auto" in done.stdout) == (0, True), done.stderr


HATS = """\
# Ignored: what is not about hats.
cli: {backend: kiro}
event_loop: {starting_event: go, completion_promise: SHIPPED, max_iterations: 1}
hats:
  one: {triggers: [go], publishes: [SHIPPED]}
"""


def described(loops: LoopBench, *options: str, **env: str) -> dict[str, str]:
    done = loops.ralph("run", "--dry-run", "--json", *options, **env)
    assert done.returncode == 0, done.stderr
    shown: dict[str, str] = json.loads(done.stdout)
    return shown


def test_hats_and_keys_are_given_on_the_command_line(loops: LoopBench) -> None:
    loops.configure("exit", event_loop={"max_iterations": 7}, hats={"old": {"triggers": ["x"]}})
    (loops.tree / "hats.yml").write_text(HATS)
    shown = described(
        loops, "-c", "core.specs_dir=mine", "-c", str(loops.root / "ralph.yml"), "-H", "hats.yml", "-c", "max_cost=2"
    )
    assert [label for label in shown if label.startswith("Hat ")] == ["Hat one"]
    assert "7 iterations" in shown["Limits"]
    assert "$2" in shown["Limits"]
    assert "SHIPPED" in shown["Done when"]
    assert "core.specs_dir=mine" in shown["Configuration"]


@pytest.mark.parametrize("name", OF_RALPH)
def test_built_in_hats(loops: LoopBench, name: str) -> None:
    loops.configure("exit")
    shown = described(loops, "-c", str(loops.root / "ralph.yml"), "-H", f"builtin:{name}")
    hats = YAML(typ="safe").load(preset_text(name))["hats"]
    assert [label for label in shown if label.startswith("Hat ")] == [f"Hat {hat}" for hat in hats]


def test_ralph_config_names_the_file(loops: LoopBench) -> None:
    loops.configure("exit", event_loop={"max_iterations": 7})
    theirs = loops.root / "ralph.yml"
    assert "7 iterations" in described(loops, RALPH_CONFIG=str(theirs))["Limits"]
    (loops.tree / "other.yml").write_text("max_iterations: 3\ncli: {backend: custom, command: sh}\nprompt: x")
    assert "3 iterations" in described(loops, "-c", "other.yml", RALPH_CONFIG=str(theirs))["Limits"]
    two = loops.ralph("run", "--dry-run", "-c", "other.yml", "-c", str(theirs))
    assert ("3 iterations" in two.stdout, str(theirs) in two.stderr) == (True, True)


def test_problems_name_their_source(loops: LoopBench) -> None:
    loops.configure("exit")
    (loops.tree / "hats.yml").write_text("hats:\n  one:\n    trigger: [x]\n")
    config = ("-c", str(loops.root / "ralph.yml"))
    done = loops.ralph("run", "--dry-run", *config, "-H", "hats.yml")
    assert "hats.yml:3:5: hats.one.trigger: unknown key" in done.stderr
    done = loops.ralph("run", "--dry-run", *config, "-c", "event_loop.max_iterations=many")
    assert "  - event_loop.max_iterations: must be" in done.stderr


def test_what_is_not_supported_in_other_hats_is_refused(loops: LoopBench) -> None:
    loops.configure("exit")
    (loops.tree / "hats.yml").write_text("persistent: ignored\nhats:\n  one: {concurrency: 3}\n")
    done = loops.ralph("run", "--dry-run", "-c", str(loops.root / "ralph.yml"), "-H", "hats.yml")
    assert "hats.yml:3:9: hats.one.concurrency: is not supported yet" in done.stderr


def test_continue_keeps_hats_and_keys(loops: LoopBench) -> None:
    loops.configure('ralph emit go; [ $N = 2 ] && ralph emit SHIPPED "done"; exit 0')
    (loops.tree / "hats.yml").write_text(HATS)
    given = ("-H", "hats.yml", "-c", "max_iterations=1", "-c", "event_loop.checkpoint_interval=0")
    first = loops.ralph("run", "--no-tui", "-c", str(loops.root / "ralph.yml"), *given)
    assert first.returncode == 2, first.stdout + first.stderr
    done = loops.ralph("run", "--no-tui", "--continue", "--max-iterations", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record.hat for record in loops.history().records] == ["one", "one"]


def test_built_in_hats_can_complete() -> None:
    """Some hat receives each event, and some hat can publish the promise and each required event."""
    for name in OF_RALPH:
        document = YAML(typ="safe").load(preset_text(name))
        loop, hats = document["event_loop"], document["hats"].values()
        published = {topic for hat in hats for topic in hat["publishes"]}
        received = {topic for hat in hats for topic in hat["triggers"]}
        assert {loop["completion_promise"], *loop["required_events"]} <= published
        assert loop["starting_event"] in received
        assert received <= published | {loop["starting_event"]}, name
        assert PRESETS[name]


@posix_only("a console of Windows changes what a program prints")
@versions(NEWEST)
async def test_claude_works_with_built_in_hats(claude: ClaudeBench) -> None:
    claude.put_on_path()
    project = ClaudeProject(claude.workspace, claude.home, claude.harness_env)
    turns = script(
        bash('ralph emit research.finding "it is in README.md"'),
        says("Found."),
        bash('"$RALPH_BIN" emit RESEARCH_COMPLETE "README.md"'),
        says("Answered."),
        across_sessions=True,
    )
    async with ScriptedModel(turns) as model:
        env = {**project.env, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY, "IS_SANDBOX": "1"}
        command = (RALPH, "run", "-H", "builtin:research", "-b", "claude", "-p", "Where is the title?", "--no-tui")
        running = partial(subprocess.run, command, cwd=project.tree, env=env, capture_output=True, text=True)
        done = await asyncio.to_thread(running)
        prompts = [prompt_of(request) for request in model.requests if request.kind == "turn"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert ["role: Researcher" in prompt for prompt in prompts] == [True, True, False, False]
    assert "it is in README.md" in prompts[2]


# The original's own files.

_BLOCK = re.compile(r"^( *)```ya?ml[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_OF_A_LOOP = {
    "cli", "event_loop", "hats", "events", "core", "adapters", "memories", "tasks", "features", "hooks", "skills",
    "RObot", "tui", "agent", "prompt", "prompt_file", "max_iterations", "completion_promise", "preset",
}  # fmt: skip
_OF_OTHERS = {"services", "jobs", "apiVersion", "on"}
INVALID_EXAMPLES = {
    "docs/advanced/custom-hats.md:12",  # `triggers` is a list of texts in its types
    "presets/COLLECTION.md:187",  # `default_publishes` is one text
    *(f"docs/migration/v2-hatless-ralph.md:{line}" for line in (48, 66, 86, 120, 147)),  # `hats` is a mapping
    "docs/examples/tdd-workflow.md:23",  # a topic of two words, which `ralph emit` does not take here
}
"""Examples that the original itself cannot load, and one that we do not support."""


def examples() -> Iterator[tuple[str, str]]:
    root = original("ralph-orchestrator")
    for page in sorted([*root.glob("docs/**/*.md"), *root.glob("presets/*.md"), *root.glob("*.md")]):
        text = page.read_text()
        for found in _BLOCK.finditer(text):
            body = "\n".join(line.removeprefix(found[1]) for line in found[2].splitlines())
            yield f"{page.relative_to(root)}:{text[: found.start()].count(chr(10)) + 1}", body
    for file in sorted([*root.glob("presets/**/*.yml"), *root.glob("ralph*.yml")]):
        yield str(file.relative_to(root)), file.read_text()


def is_a_loop(text: str) -> bool:
    try:
        data = YAML(typ="safe").load(text)
    except YAMLError:
        return False
    return isinstance(data, dict) and bool(_OF_A_LOOP & data.keys()) and not _OF_OTHERS & data.keys()


@pytest.mark.full
def test_every_example_of_the_original_loads(tmp_path: Path) -> None:
    refused: dict[str, list[str]] = {}
    count = 0
    for name, text in examples():
        if not is_a_loop(text):
            continue
        count += 1
        file = tmp_path / "ralph.yml"
        file.write_text(text)
        try:
            load_loop_file(file)
        except ConfigError as error:
            missing = [str(problem) for problem in error.problems if "is not supported yet" not in problem.message]
            if missing:
                refused[name] = missing
    assert count > 100
    assert refused.keys() == INVALID_EXAMPLES, refused


@pytest.mark.full
def test_presets_of_the_original_can_be_planned(loops: LoopBench) -> None:
    root = original("ralph-orchestrator")
    for file in sorted(root.glob("presets/**/*.yml")):
        if file.name == "wave-review.yml":  # waves are not supported yet
            continue
        checked = yb("validate", "-c", str(file), cwd=loops.tree)
        assert checked.returncode == 0, checked.stderr
        program = f"cli.command={loops.agent('exit')}"
        described(loops, "-c", str(file), "-c", "cli.backend=custom", "-c", program, "-p", "x")


@pytest.mark.full
@pytest.mark.parametrize("name", OF_RALPH)
def test_built_in_hats_match_the_original_except_for_the_instructions(name: str) -> None:
    theirs = YAML(typ="safe").load((original("ralph-orchestrator") / f"presets/{name}.yml").read_text())
    ours = YAML(typ="safe").load(preset_text(name))
    for key in ("completion_promise", "required_events", "starting_event", "max_iterations", "max_runtime_seconds"):
        assert ours["event_loop"].get(key) == theirs["event_loop"].get(key)
    assert list(ours["hats"]) == list(theirs["hats"])
    for hat, written in ours["hats"].items():
        for key in ("triggers", "publishes", "default_publishes"):
            assert written.get(key) == theirs["hats"][hat].get(key), hat
    assert phrases(ours) & phrases(theirs) == set()


def phrases(document: dict[str, Any]) -> set[tuple[str, ...]]:
    """Each eight words in a row of the texts."""
    texts = [text for hat in document["hats"].values() for text in (hat["description"], hat["instructions"])]
    lines = [re.findall(r"[a-z']+", text.lower()) for text in (*texts, *document["core"].get("guardrails", ()))]
    return {tuple(words[at : at + 8]) for words in lines for at in range(len(words) - 7)}
