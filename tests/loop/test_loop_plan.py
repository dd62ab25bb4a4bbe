"""The plan of a loop: prompt, backends, gateway, sandbox and gates, decided before the first iteration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from youbencha.cli.loop_run import describe
from youbencha.errors import ConfigError, YouBenchaError
from youbencha.loop.plan import LoopOverrides, LoopPlan, check_loop, find_loop_file, plan_loop
from youbencha.scaffold import begin_loop
from youbencha.spec.sandbox import SandboxSpec
from youbencha.spec.settings import load_settings
from youbencha.store.loops import LoopOptions
from youbencha.trial.context import Host
from youbencha.trial.gateway_plan import GatewayOptions

KEY = {"ANTHROPIC_API_KEY": "sk-ant-dummy-0123456789"}


class Project:
    """A directory with a prompt, and programs on PATH."""

    def __init__(self, root: Path) -> None:
        self.directory, self.bin = root / "project", root / "bin"
        for path in (self.directory, self.bin):
            path.mkdir()
        self.env = {"PATH": str(self.bin), "HOME": str(root), "YOUBENCHA_TOOLBOX": str(root / "toolbox")}
        self.has("claude")
        self.prompt = self.directory / "PROMPT.md"
        self.prompt.write_text("Add a test.\n")

    def has(self, program: str) -> None:
        (self.bin / program).write_text("#!/bin/sh\n")
        (self.bin / program).chmod(0o755)

    def write(self, text: str, name: str = "ralph.yml") -> Path:
        file = self.directory / name
        file.write_text(text)
        return file

    def host(self, **env: str) -> Host:
        return Host({**self.env, **env}, load_settings(self.directory, Path(self.env["HOME"])))

    def plan(self, text: str | None = None, env: dict[str, str] | None = None, **overrides: Any) -> LoopPlan:
        if text is not None:
            self.write(text)
        return plan_loop(
            find_loop_file(self.directory), self.host(**(env or {})), self.directory, LoopOverrides(**overrides)
        )

    def refused(self, text: str | None = None, **options: Any) -> YouBenchaError:
        with pytest.raises(YouBenchaError) as caught:
            self.plan(text, **options)
        return caught.value


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def problems(error: YouBenchaError) -> list[tuple[str, int | None]]:
    assert isinstance(error, ConfigError)
    return [(problem.path, problem.line) for problem in error.problems]


def test_without_a_file_a_loop_has_the_defaults(project: Project) -> None:
    plan = project.plan()
    assert (plan.objective, plan.backend.name, plan.detected) == ("Add a test.\n", "claude", True)
    assert (plan.config_file, plan.gates, plan.warnings) == (None, (), ())


@pytest.mark.parametrize("name", ["ralph.yml", "ralph.yaml"])
def test_the_file_in_the_directory_is_found(project: Project, name: str) -> None:
    file = project.write("max_iterations: 3", name)
    plan = project.plan()
    assert (plan.config_file, plan.spec.event_loop.max_iterations) == (file, 3)


def test_another_file_may_be_given(project: Project, tmp_path: Path) -> None:
    project.write("max_iterations: 3")
    other = tmp_path / "preset.yml"
    other.write_text("max_iterations: 4")
    file = find_loop_file(project.directory, other)
    plan = plan_loop(file, project.host(), project.directory)
    assert plan.spec.event_loop.max_iterations == 4
    assert plan.objective == "Add a test.\n", "the prompt file is in the directory of the loop"


def test_the_prompt_comes_from_the_command_line_then_the_file(project: Project) -> None:
    (project.directory / "other.md").write_text("from a file")
    config = "event_loop: {prompt: from the configuration}"
    assert project.plan(config).objective == "from the configuration"
    assert project.plan(config, prompt="given").objective == "given"
    assert project.plan(config, prompt_file=Path("other.md")).objective == "from a file"
    assert project.plan("prompt_file: other.md").objective == "from a file"


def test_a_missing_or_unusable_prompt_is_a_clear_error(project: Project) -> None:
    assert project.refused(prompt="a", prompt_file=Path("b")).code == "PROMPT_AMBIGUOUS"
    assert project.refused(prompt=" \n").code == "PROMPT_EMPTY"
    project.prompt.unlink()
    begin_loop(project.directory, "plain", "auto")
    assert "is still the example" in project.refused().message
    project.prompt.write_bytes(b"caf\xe9")
    assert project.refused().code == "PROMPT_INVALID"
    project.prompt.write_bytes(b"\xef\xbb\xbf\n \n")
    assert project.refused().code == "PROMPT_EMPTY"
    project.prompt.unlink()
    error = project.refused()
    assert error.code == "PROMPT_MISSING"
    assert str(project.prompt) in error.message
    assert "ralph init" in (error.hint or "")
    project.prompt.mkdir()
    assert project.refused().code == "PROMPT_INVALID"


def test_a_prompt_that_is_a_link_stays_in_the_directory(project: Project, tmp_path: Path) -> None:
    """An agent in a container could have made it."""
    outside = tmp_path / "secret.txt"
    outside.write_text("a secret")
    project.prompt.rename(project.directory / "real.md")
    project.prompt.symlink_to("real.md")
    assert project.plan().objective == "Add a test.\n"
    project.prompt.unlink()
    project.prompt.symlink_to(outside)
    assert project.refused().code == "PROMPT_INVALID"
    assert project.refused(prompt_file=Path("PROMPT.md")).code == "PROMPT_INVALID"
    assert project.plan(prompt_file=outside).objective == "a secret", "a user may name any file"


def test_options_override_the_file(project: Project) -> None:
    project.has("codex")
    text = "cli: {backend: claude, model: opus, args: [--add-dir, /x]}\nmax_iterations: 3\nmax_cost: 1"
    plan = project.plan(
        text, backend="codex", args=("--search",), max_iterations=9, completion_promise="OK", idle_timeout_secs=5.0
    )
    assert (plan.backend.name, plan.backend.model, plan.backend.config) == ("codex", None, {"extra_args": ["--search"]})
    loop = plan.spec.event_loop
    assert (loop.max_iterations, loop.completion_promise, loop.idle_timeout_secs, loop.max_cost_usd) == (9, "OK", 5, 1)
    same = project.plan(text, backend="claude", args=("--verbose-tools",), model="haiku").backend
    auto = project.plan(text.replace("backend: claude, ", ""), backend="claude").backend
    assert (auto.model, auto.config["extra_args"]) == ("opus", ["--add-dir", "/x"]), "they are for any backend"
    assert (same.model, same.config["extra_args"]) == ("haiku", ["--add-dir", "/x", "--verbose-tools"])


def test_options_hold_when_a_loop_continues(project: Project) -> None:
    given = LoopOverrides(
        prompt_file=Path("task.md"), backend="claude", model="opus", args=("--x",), max_cost_usd=5,
        sandbox=SandboxSpec(type="docker"),
    )  # fmt: skip
    earlier = LoopOptions.model_validate_json(given.kept().model_dump_json())
    assert LoopOverrides().over(earlier) == given
    assert LoopOverrides(max_cost_usd=0, prompt="new").over(earlier) == given._replace(
        max_cost_usd=0, prompt="new", prompt_file=None
    )
    other = LoopOverrides(backend="codex").over(earlier)
    assert (other.model, other.args, other.max_cost_usd) == (None, (), 5), "those were for Claude Code"


def test_a_backend_of_the_command_line_must_be_usable(project: Project) -> None:
    error = project.refused("max_iterations: 3", backend="cluade")
    assert (error.code, error.hint) == ("BACKEND_UNKNOWN", "did you mean 'claude'?")
    assert project.refused(backend="codex").code == "BACKEND_NOT_INSTALLED"
    assert project.refused(backend="custom").code == "BACKEND_INCOMPLETE"


def test_a_custom_program_must_exist(project: Project) -> None:
    config = "cli: {backend: custom, command: 'bin/agent --fast'}"
    error = project.refused(config)
    assert (error.code, str(project.directory / "bin/agent") in error.message) == ("BACKEND_NOT_INSTALLED", True)
    (project.directory / "bin").mkdir()
    (project.directory / "bin/agent").touch()
    assert project.plan(config).backend.title == "agent"


def test_a_backend_for_each_hat_and_each_step_of_the_escalation(project: Project) -> None:
    project.has("codex")
    plan = project.plan("""
cli: {backend: claude, model: sonnet, args: [--add-dir, /x]}
event_loop:
  escalation: [{model: opus}, {backend: codex, model: gpt-5}, person]
hats:
  build: {triggers: [a]}
  review: {triggers: [b], model: haiku, disallowed_tools: [Edit]}
  check: {triggers: [c], backend: codex, backend_args: [--search]}
""")
    assert set(plan.hat_backends) == {"review", "check"}
    review, check = plan.hat_backends["review"], plan.hat_backends["check"]
    assert (review.name, review.model, review.config["disallowed_tools"]) == ("claude", "haiku", ["Edit"])
    assert review.config["extra_args"] == ["--add-dir", "/x"]
    assert (check.name, check.model, check.config) == ("codex", None, {"extra_args": ["--search"]})
    chosen = {
        (hat, step): (plan.backend_for(hat, step).name, plan.backend_for(hat, step).model)
        for hat in (None, "build", "check")
        for step in range(4)
    }
    assert chosen[(None, 0)] == chosen[("build", 0)] == ("claude", "sonnet")
    assert chosen[("build", 1)] == ("claude", "opus")
    assert chosen[("check", 0)] == chosen[("check", 1)] == ("codex", None), "a model of Claude is not for Codex"
    assert chosen[("check", 2)] == chosen[("build", 2)] == ("codex", "gpt-5")
    assert plan.escalation[-1] is None


def test_auto_is_one_decision_for_the_whole_loop(project: Project) -> None:
    project.has("codex")
    plan = project.plan("cli: {args: [--add-dir, /x]}\nevent_loop: {escalation: [{backend: codex}]}")
    assert plan.backend.config["extra_args"] == ["--add-dir", "/x"]
    assert plan.backend_for(None, 1).config == {}


def test_the_budget_is_the_gateways_where_there_is_a_key(project: Project) -> None:
    text = "max_cost: 2.5"
    with_key = project.plan(text, env=KEY).backend.gateway
    assert with_key is not None
    assert with_key.spec.budget_total_usd == 2.5
    assert project.plan(text).backend.gateway is None, "a subscription: no gateway, and no error"
    assert project.plan(text, env=KEY, gateway=GatewayOptions(type="none")).backend.gateway is None
    assert project.refused("gateway: builtin").code == "GATEWAY_KEY_MISSING"


def test_a_container_needs_a_gateway(project: Project) -> None:
    docker = SandboxSpec(type="docker")
    assert project.refused(sandbox=docker).code == "GATEWAY_KEY_MISSING"
    assert project.refused("sandbox: {type: docker, network: none}", env=KEY).code == "SANDBOX_NO_MODEL"
    plan = project.plan("sandbox: docker", env=KEY)
    assert (plan.sandbox.type, plan.backend.gateway is not None) == ("docker", True)


def test_on_this_computer_an_agent_has_the_users_home(project: Project) -> None:
    assert project.plan().sandbox.home == "own"
    assert project.plan("sandbox: {type: local, home: fresh}").sandbox.home == "fresh"


def test_variables_come_from_the_environment(project: Project) -> None:
    text = "cli:\n  env:\n    TOKEN: ${MINE}\n"
    assert project.plan(text, env={"MINE": "x"}).backend.env == {"TOKEN": "x"}
    assert problems(project.refused(text)) == [("cli.env.TOKEN", 3)]


def test_gates_are_evaluators(project: Project) -> None:
    plan = project.plan("""
gates:
  - {name: tests, command: "make test && make lint"}
  - {name: words, command: [pytest, -q], config: {timeout: 5}}
  - {name: agentic-judge, config: {type: claude-code, assertions: {good: It is good.}}}
""")
    tests, words, judge = plan.gates
    assert (tests.name, tests.config["shell"], tests.config["copy"]) == ("command:tests", True, False)
    assert (words.config["command"], words.config["timeout"], "shell" in words.config) == (("pytest", "-q"), 5, False)
    assert judge.name == "agentic-judge"


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("gates:\n  - name: no-such-evaluator", "gates.0.name", 2),
        ("gates:\n  - name: t\n    command: ''", "gates.0.command", 3),
        ("gates:\n  - name: t\n    command: x\n    config: {timeot: 3}", "gates.0.config.timeot", 4),
        ("backpressure:\n  gates:\n    - name: t\n      command: x\n      config: {timeot: 3}",
         "backpressure.gates.0.config.timeot", 5),
        ("cli: {}\nagent: cluade", "agent", 2),
        ("cli:\n  backend: cluade", "cli.backend", 2),
        ("agent_priority:\n  - codex\n  - cluade", "agent_priority.1", 3),
        ("hats:\n  a:\n    backend: cluade", "hats.a.backend", 3),
        ("event_loop:\n  escalation:\n    - backend: cluade", "event_loop.escalation.0.backend", 3),
        ("cli:\n  backend: claude\n  args: [bare]", "cli.args", 3),
        ("cli:\n  backend: claude\n  model: gpt-5", "cli.model", 3),
        ("cli:\n  backend: claude\n  config: {max_turn: 3}", "cli.config.max_turn", 3),
        ("hats:\n  a:\n    backend: claude\n    disallowed_tools: ['(']", "hats.a.disallowed_tools", 4),
    ],
)  # fmt: skip
def test_mistakes_have_positions(project: Project, text: str, path: str, line: int) -> None:
    assert problems(project.refused(text)) == [(path, line)]
    file = find_loop_file(project.directory)
    assert file is not None
    with pytest.raises(ConfigError) as caught:
        check_loop(file, project.host())
    assert problems(caught.value) == [(path, line)]


def test_the_agent_is_the_default_for_a_judge(project: Project) -> None:
    judge = "gates:\n  - {name: agentic-judge, config: {assertions: {good: It is good.}}}\n"
    assert project.plan(judge).gates[0].name == "agentic-judge"
    program = "cli: {backend: custom, command: /bin/true}\n"
    assert problems(project.refused(program + judge))[0][1] == 3


def test_a_check_needs_no_program_and_no_variable(project: Project) -> None:
    project.write("""
cli: {backend: codex, env: {TOKEN: "${MINE}"}}
hats: {a: {backend: kiro}}
sandbox: docker
""")
    file = find_loop_file(project.directory)
    assert file is not None
    check_loop(file, project.host())


def test_all_mistakes_are_reported_at_once(project: Project) -> None:
    project.write("cli: {backend: cluade}\nhats: {a: {backend: codx}}\ngates: [{name: nothing}]")
    file = find_loop_file(project.directory)
    assert file is not None
    with pytest.raises(ConfigError) as caught:
        check_loop(file, project.host())
    assert [path for path, _ in problems(caught.value)] == ["cli.backend", "hats.a.backend", "gates.0.name"]


def test_a_plan_is_described(project: Project) -> None:
    rows = dict(describe(project.plan("""
cli: {idle_timeout_secs: 30}
max_cost: 2
event_loop: {escalation: [{model: opus}, person]}
hats: {a: {triggers: [x], publishes: [y], model: haiku}}
gates: [{name: tests, command: make test}]
""")))  # fmt: skip
    assert rows["Backend"] == "Claude Code (claude), the first that is installed"
    assert rows["Hat a"] == "x → y, Claude Code (claude, haiku)"
    assert rows["Limits"] == "100 iterations, 4 h 00 min, $2.00, 5 failures in a row"
    assert rows["Done when"] == "the agent says LOOP_COMPLETE, these gates pass: tests"
    assert rows["Escalation"] == "after 3 failures: Claude Code (claude, opus), then a person"
    assert "cli.idle_timeout_secs" in rows["Warnings"]
