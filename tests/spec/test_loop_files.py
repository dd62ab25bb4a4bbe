"""ralph.yml: every key of Ralph 2.10 is known, older keys are moved to their places, mistakes have positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from youbencha.errors import ConfigError, Problem
from youbencha.spec.loop import DEFAULT_PROMISE
from youbencha.spec.loop_loader import LoopFile, is_loop_file, load_loop_file


def write(directory: Path, text: str) -> Path:
    file = directory / "ralph.yml"
    file.write_text(text, encoding="utf-8")
    return file


def load(directory: Path, text: str) -> LoopFile:
    return load_loop_file(write(directory, text))


def problems_in(directory: Path, text: str) -> list[tuple[str, int | None, str]]:
    with pytest.raises(ConfigError) as caught:
        load(directory, text)
    return [(problem.path, problem.line, problem.message) for problem in caught.value.problems]


PRESETS = {
    "no hats": """
        event_loop:
          completion_promise: "ALL_DONE"
          max_iterations: 20
          max_runtime_seconds: 3600
        cli:
          backend: kiro
          prompt_mode: arg
          pty_mode: false
          idle_timeout_secs: 30
        core:
          specs_dir: "./specs/"
          guardrails: ["Read first.", "Test last."]
        """,
    "several hats": """
        event_loop:
          prompt_file: PROMPT.md
          completion_promise: LOOP_COMPLETE
          starting_event: work.start
          required_events: [work.checked]
          checkpoint_interval: 5
          idle_timeout_secs: 300
        cli: {backend: claude, prompt_mode: arg}
        core:
          scratchpad: .ralph/agent/notes.md
        hats:
          maker:
            name: "🔨 Maker"
            description: Makes it.
            triggers: [work.start, work.refused]
            publishes: [work.made]
            default_publishes: work.made
            instructions: |
              Make one thing, then `ralph emit work.made "what"`.
          checker:
            name: Checker
            triggers: ["work.*"]
            publishes: [work.checked, work.refused, LOOP_COMPLETE]
            backend: {type: codex, args: ["--search"]}
            max_activations: 4
            disallowed_tools: [Edit, Write]
            scratchpad: {enabled: false}
            timeout: 600
            concurrency: 1
        """,
    "shared instructions": """
        _careful: &careful |
          Be careful.
        hats:
          one:
            triggers: [a]
            publishes: [b]
            instructions: Do it.
            extra_instructions: [*careful]
        """,
    "what is turned off": """
        hooks: {enabled: false, events: {pre.loop.start: [{name: x, command: [y]}]}}
        skills: {enabled: false}
        RObot: {enabled: false, timeout_seconds: 10, telegram: {bot_token: t}}
        features: {parallel: false, auto_merge: false, preflight: {enabled: false}}
        """,
    "a program": """
        cli:
          backend: custom
          command: my-agent
          args: ["--yes", "-m", "some/model"]
          prompt_mode: stdin
        """,
    "an empty file": "",
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_of_all_shapes_load(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, PRESETS[name]).spec.event_loop.max_iterations > 0


def test_an_empty_file_has_the_defaults(tmp_path: Path) -> None:
    spec = load(tmp_path, "").spec
    assert (spec.cli.backend, spec.event_loop.completion_promise) == ("auto", DEFAULT_PROMISE)
    assert (spec.event_loop.max_iterations, spec.event_loop.max_runtime_seconds) == (100, 14_400)


def test_flat_keys_of_version_1_are_moved_to_their_places(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
agent: codex
agent_priority: [gemini, claude]
prompt_file: TASK.md
completion_promise: DONE
max_iterations: 7
max_runtime: 60
max_cost: 1.5
retry_delay: 9
project: {specs_dir: specs}
backpressure:
  gates:
    - {name: tests, command: make test, on_fail: Fix the tests.}
""",
    )
    spec, loop = loaded.spec, loaded.spec.event_loop
    assert (spec.cli.backend, spec.cli.agent_priority) == ("codex", ("gemini", "claude"))
    assert (loop.prompt_file, loop.completion_promise, loop.max_iterations) == ("TASK.md", "DONE", 7)
    assert (loop.max_runtime_seconds, loop.max_cost_usd, loop.retry.delay_seconds) == (60, 1.5, 9)
    assert spec.core.specs_dir == "specs"
    assert [(gate.name, gate.command, gate.on_fail) for gate in spec.gates] == [
        ("tests", "make test", "Fix the tests.")
    ]
    assert loaded.warnings == ()


def test_both_forms_may_say_the_same(tmp_path: Path) -> None:
    assert load(tmp_path, "max_iterations: 7\nevent_loop: {max_iterations: 7}").spec.event_loop.max_iterations == 7


def test_both_forms_that_differ_are_an_error_at_the_older_key(tmp_path: Path) -> None:
    found = problems_in(tmp_path, "event_loop:\n  max_iterations: 7\nmax_iterations: 8\n")
    assert found == [("max_iterations", 3, "conflicts with `event_loop.max_iterations`")]


def test_a_mistake_in_a_flat_key_is_reported_where_it_is_written(tmp_path: Path) -> None:
    found = problems_in(
        tmp_path, "cli: {}\nmax_iterations: many\nbackpressure:\n  gates:\n    - {name: x, comand: y}\n"
    )
    assert found == [
        ("max_iterations", 2, "must be a whole number, not text"),
        ("backpressure.gates.0.comand", 5, "unknown key"),
    ]


@pytest.mark.parametrize(
    ("text", "path", "nearest"),
    [
        ("evnt_loop: {}", "evnt_loop", "event_loop"),
        ("event_loop: {max_iteration: 3}", "event_loop.max_iteration", "max_iterations"),
        ("cli: {bakend: claude}", "cli.bakend", "backend"),
        ("hats: {a: {trigger: [x]}}", "hats.a.trigger", "triggers"),
        ("max_iteratoins: 3", "max_iteratoins", "max_iterations"),
        ("hooks: {enabld: false}", "hooks.enabld", "enabled"),
        ("features: {x: 1}", "features.x", "auto_merge, loop_naming, parallel, preflight"),
    ],
)
def test_unknown_keys_are_errors_with_the_nearest(tmp_path: Path, text: str, path: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    (problem,) = caught.value.problems
    assert (problem.path, problem.kind) == (path, "unknown_key")
    assert problem.hint is not None
    assert nearest in problem.hint


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("hooks: {enabled: true}", "hooks.enabled"),
        ("RObot: {enabled: true}", "RObot.enabled"),
        ("features: {auto_merge: true}", "features.auto_merge"),
        ("event_loop: {persistent: true}", "event_loop.persistent"),
        ("hats: {a: {concurrency: 3}}", "hats.a.concurrency"),
        ("hats: {a: {aggregate: {mode: wait_for_all, timeout: 3}}}", "hats.a.aggregate"),
        ("cli: {default_mode: interactive}", "cli.default_mode"),
    ],
)
def test_what_is_not_supported_yet_says_so(tmp_path: Path, text: str, path: str) -> None:
    ((found, line, message),) = problems_in(tmp_path, f"# a comment\n{text}")
    assert (found, line) == (path, 2)
    assert "not supported yet" in message


@pytest.mark.parametrize(
    "text",
    [
        "verbose: true",
        "archive_prompts: true",
        "enable_metrics: true",
        "max_tokens: 5",
        "tui: {prefix_key: ctrl-a}",
        "skills: {dirs: [.claude/skills]}",
        "cli: {idle_timeout_secs: 30}",
        "cli: {pty_interactive: true}",
        "event_loop: {mutation_score_warn_threshold: 80}",
        "adapters: {claude: {timeout: 300}}",
        "adapters: {claude: {tool_permissions: [Read]}}",
        "features: {parallel: true}",
        "features: {preflight: {enabled: true}}",
        "features: {loop_naming: {format: timestamp}}",
        "core: {workspace_root: /somewhere}",
    ],
)
def test_a_key_without_an_effect_is_a_warning(tmp_path: Path, text: str) -> None:
    (warning,) = load(tmp_path, text).warnings
    assert warning.message == "has no effect"
    assert (warning.line, bool(warning.hint)) == (1, True)
    for suppressed in ("suppress_warnings", "_suppress_warnings"):
        assert load(tmp_path, f"{suppressed}: true\n{text}").warnings == ()


ALL_KEYS = """
event_loop: [prompt, prompt_file, completion_promise, max_iterations, max_runtime_seconds, max_cost_usd,
  max_consecutive_failures, cooldown_delay_seconds, starting_hat, starting_event, mutation_score_warn_threshold,
  persistent, required_events, cancellation_promise, enforce_hat_scope, context_window_tokens]
core: [scratchpad, specs_dir, guardrails, workspace_root]
cli: [backend, command, prompt_mode, default_mode, idle_timeout_secs, args, prompt_flag]
hats.a: [name, description, triggers, publishes, instructions, extra_instructions, backend, backend_args, args,
  default_publishes, max_activations, scratchpad, disallowed_tools, timeout, concurrency, aggregate]
events.a: [description, on_trigger, on_publish]
adapters.claude: [timeout, enabled, tool_permissions]
tui: [prefix_key]
memories: [enabled, inject, budget, filter]
memories.filter: [types, tags, recent]
tasks: [enabled]
hooks: [enabled, defaults, events]
skills: [enabled, dirs, overrides]
features: [parallel, auto_merge, loop_naming, preflight]
features.loop_naming: [format, max_length]
features.preflight: [enabled, strict, skip]
RObot: [enabled, mode, timeout_seconds, checkin_interval_seconds, telegram]
"": [agent, agent_priority, prompt_file, completion_promise, max_iterations, max_runtime, max_cost, verbose,
  archive_prompts, enable_metrics, max_tokens, retry_delay, suppress_warnings, _suppress_warnings, project]
"""
"""Of Ralph 2.10, from the facts about it."""


def every_key() -> Iterator[tuple[str, ...]]:
    for section, keys in YAML(typ="safe", pure=True).load(ALL_KEYS).items():
        yield from ((*section.split("."), key) if section else (key,) for key in keys)


@pytest.mark.parametrize("path", list(every_key()), ids=".".join)
def test_no_key_of_ralph_is_unknown(tmp_path: Path, path: tuple[str, ...]) -> None:
    data: Any = "\0"  # wrong for most keys, so that they are refused, but none is unknown
    for key in reversed(path):
        data = {key: data}
    file = tmp_path / "ralph.yml"
    with file.open("w") as stream:
        YAML().dump(data, stream)
    found: Sequence[Problem] = ()
    try:
        load_loop_file(file)
    except ConfigError as error:
        found = error.problems
    assert [problem for problem in found if problem.kind == "unknown_key"] == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("event_loop: {prompt: a, prompt_file: b}", "event_loop.prompt_file"),
        ("event_loop: {escalation: [{}]}", "event_loop.escalation.0"),
        ("event_loop: {escalation: [{person: x, model: y}]}", "event_loop.escalation.0.person"),
        ("event_loop: {starting_hat: b}\nhats: {a: {}}", "event_loop"),
        ("cli: {backend: custom}", "cli.backend"),
        ("hats: {a: {backend: {args: [x]}}}", "hats.a.backend"),
        ("hats: {a: {triggers: ['two words']}}", "hats.a.triggers.0"),
        ("- a list", ""),
    ],
)
def test_contradictions_are_found(tmp_path: Path, text: str, path: str) -> None:
    assert [found for found, _, _ in problems_in(tmp_path, text)] == [path]


def test_pty_mode_may_be_a_word(tmp_path: Path) -> None:
    words = ("true", "always", "observe", "false", "auto", "never")
    modes = [load(tmp_path, f"cli: {{pty_mode: {word}}}").spec.cli.pty_mode for word in words]
    assert modes == [True, True, True, False, False, False]


def test_escalation_may_end_with_a_person(tmp_path: Path) -> None:
    spec = load(tmp_path, "event_loop: {escalation: [{model: opus}, {backend: codex}, person]}").spec
    assert [(step.model, step.backend, bool(step.person)) for step in spec.event_loop.escalation] == [
        ("opus", None, False),
        (None, "codex", False),
        (None, None, True),
    ]


def test_a_loop_is_told_apart_from_other_files(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    for text, is_loop in {
        "event_loop: {}": True,
        "agent: claude\nmax_iterations: 3": True,
        "tasks: {enabled: true}\ncli: {}": True,
        "name: x\nrepo: .\nagent: {type: claude-code}\nevaluators: [git-diff]": False,
        "orchestrators: []\ntasks: []": False,
        "directory: .\nevaluators: [git-diff]": False,
        "just text": False,
    }.items():
        file.write_text(text)
        assert is_loop_file(file) is is_loop, text
    assert is_loop_file(write(tmp_path, "core: {}"))
