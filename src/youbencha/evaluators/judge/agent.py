"""Choose and check the agent that judges, and install its definition.

`agent_name: agentic-judge` is youBencha's definition, unless the user's project has a file of that name. A definition
is never taken from the judged tree: the agent under test could have written "always score 1" into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from youbencha.adapters.base import AgentAdapter, ChecksConfig, UsesGateway
from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.judge.config import OWN_KEYS, JudgeConfig, read_config, read_guidance
from youbencha.evaluators.judge.materials import SUFFIX
from youbencha.spec.problems import unknown_key
from youbencha.spec.testcase import AgentSpec
from youbencha.text import did_you_mean
from youbencha.user_dirs import project_directories

Adapters = Callable[[str], AgentAdapter]
_JUDGE_ONLY = frozenset({"prompt", "prompt_file"})

_SHARED = frozenset({"agent_name", "model", "version"})
"""Keys of both a judge's configuration and its agent's."""

_CLI = frozenset({"executable", "version"})

_SAFE_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    # Ignores settings, hooks, MCP servers and CLAUDE.md of the judged tree, and of any directory above it.
    "claude-code": {"setting_sources": ["user"]}
}
"""Defaults of agents, by their type."""

_NO_AGENT = Problem("type", "is required: which agent judges", "there is no test case whose agent could be used")
_ANY_PROGRAM = "command"

_NO_PROGRAM = Problem(
    "type", "is required: the test case's agent, `command`, cannot judge without a program", "such as claude-code"
)

JUDGE_NAME = "agentic-judge"

AGENT_DIRECTORIES: Mapping[str, str] = {"claude-code": ".claude/agents", "copilot-cli": ".github/agents"}
"""Where agents look for definitions, by type. Others have none."""

_ENDINGS = (".md", ".agent.md")


@dataclass(frozen=True, kw_only=True)
class JudgeAgent:
    type: str
    adapter: AgentAdapter
    config: Mapping[str, Any]
    """For the adapter, without the prompt."""
    model: str | None
    agent_name: str | None

    @property
    def configured_model(self) -> str | None:
        return self.model or _text(self.config.get("model"))


def judge_agent(
    judge: JudgeConfig, options: Mapping[str, Any], agent: AgentSpec | None, adapters: Adapters
) -> JudgeAgent:
    """The agent that judges. By default, one of the same type as `agent` has the same model and CLI."""
    kind = judge.type or (agent.type if agent else None)
    assert kind is not None  # `check_judge_agent` comes first
    config = {**judge.config, **options}
    top_level = {"agent_name": judge.agent_name, "version": judge.version}
    config |= {key: value for key, value in top_level.items() if value is not None}
    same = agent if agent and agent.type == kind else None
    if same is not None:
        config = {**_same_cli(same, config), **_same_model(same, judge, config), **config}
    return JudgeAgent(
        type=kind,
        adapter=adapters(kind),
        config={**_SAFE_DEFAULTS.get(kind, {}), **config},
        model=judge.model or (same.model if same and "model" not in config else None),
        agent_name=_text(config.get("agent_name")),
    )


def uses_gateway(judge: JudgeAgent, agent_type: str | None, env: Mapping[str, str]) -> bool:
    """Whether the judge goes through the gateway.

    An agent of another type than the run's does so only if its API is known: the gateway may not serve that API, and
    the agent may have its own login.
    """
    if not isinstance(judge.adapter, UsesGateway):
        return False
    return agent_type == judge.type or judge.adapter.gateway_provider(judge.configured_model, env) is not None


def check_judge_agent(
    raw: Mapping[str, Any], agent_type: str | None, config_dir: Path, adapters: Adapters
) -> list[Problem]:
    """Problems of the agent's options, in a configuration that need not be valid otherwise."""
    inner = raw["config"] if isinstance(raw.get("config"), Mapping) else {}
    options = {key: value for key, value in raw.items() if key not in OWN_KEYS}
    problems = _misplaced_or_repeated(raw, inner)
    kind = raw.get("type") or agent_type
    if not isinstance(kind, str):
        return problems if raw.get("type") else [*problems, _NO_AGENT]
    if not raw.get("type") and kind.strip() == _ANY_PROGRAM and "command" not in {**inner, **options}:
        return [*problems, _NO_PROGRAM]
    try:
        adapter = adapters(kind.strip())
    except YouBenchaError as error:
        return [*problems, Problem("type", error.message, error.hint)]
    if not isinstance(adapter, ChecksConfig):
        return [*problems, *(unknown_key(key, sorted(OWN_KEYS)) for key in options)]
    top_level = {key: raw[key] for key in ("agent_name", "version") if raw.get(key) is not None}
    name = {**inner, **top_level}.get("agent_name")
    definition = (
        _project_definition(AGENT_DIRECTORIES.get(kind, ""), name, config_dir) if isinstance(name, str) else None
    )
    if definition is not None and not definition.rpartition("---")[2].strip():
        problems.append(Problem("agent_name", f"the definition of {name} has no instructions"))
    found = adapter.check_config({**inner, **options, **top_level, "prompt": "Judge."}, config_dir)
    return [*problems, *(_located(problem, inner, options) for problem in found)]


def _misplaced_or_repeated(raw: Mapping[str, Any], inner: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(("config", key), f"must be the judge's own `{key}`, next to `config`")
        if key in _JUDGE_ONLY
        else Problem(("config", key), f"is set twice: here, and as `{key}` next to `config`")
        for key in inner
        if key in _JUDGE_ONLY or (raw.get(key) is not None and key in _SHARED | raw.keys() - OWN_KEYS)
    ]


def _located(problem: Problem, inner: Mapping[str, Any], options: Mapping[str, Any]) -> Problem:
    """The problem with its path in the judge's configuration. An unknown key may be a misspelt key of the judge."""
    key = str(problem.keys[0]) if problem.keys else ""
    if key in inner:
        return replace(problem, keys=("config", *problem.keys))
    if problem.path in options and problem.kind == "unknown_key":
        return replace(problem, hint=did_you_mean(key, sorted(OWN_KEYS)) or problem.hint)
    return problem


def _same_cli(agent: AgentSpec, config: Mapping[str, Any]) -> dict[str, Any]:
    if config.keys() & _CLI:
        return {}
    cli: dict[str, Any] = {key: value for key, value in agent.config.items() if key in _CLI}
    return {**cli, "version": agent.version} if agent.version is not None else cli


def _same_model(agent: AgentSpec, judge: JudgeConfig, config: Mapping[str, Any]) -> dict[str, Any]:
    """The model in the agent's options, if no other is configured."""
    is_configured = judge.model or agent.model or "model" in config
    return {} if is_configured or "model" not in agent.config else {"model": agent.config["model"]}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def judge_definition() -> str:
    """The text of `agentic-judge.md`, as `yb install-agents` writes it."""
    return (Path(__file__).parent / "agentic-judge.md").read_text(encoding="utf-8")


def judge_principles() -> str:
    """The definition without its header, for a judge without a definition."""
    return judge_definition().split("---\n", 2)[2].strip()


def install_definition(agent_type: str, name: str | None, *, config_dir: Path, tree: Path) -> Path | None:
    """Write the definition to where the agent looks for it. None if there is no known definition."""
    directory = AGENT_DIRECTORIES.get(agent_type)
    if directory is None or name is None:
        return None
    text = _project_definition(directory, name, config_dir)
    if text is None and name == JUDGE_NAME:
        text = judge_definition()
    if text is None:
        return None  # perhaps in the user's home, where the agent looks, too
    path = tree
    for part in Path(directory).parts:
        path /= part
        if path.is_symlink() or path.is_file():
            path.rename(path.with_name(part + SUFFIX))  # never write through a link of the judged tree
    path.mkdir(parents=True, exist_ok=True)
    target = path / f"{name}.md"
    target.write_text(text, encoding="utf-8")
    return target


def _project_definition(directory: str, name: str, config_dir: Path) -> str | None:
    if Path(name).name != name:
        return None  # it is a path
    for project in project_directories(config_dir):
        for ending in _ENDINGS:
            path = project / directory / f"{name}{ending}"
            if path.is_file():
                return path.read_text(encoding="utf-8", errors="replace")
    return None


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A judge's configuration, or all its problems."""

    judge: JudgeConfig | None
    """None if there are problems."""
    options: Mapping[str, Any]
    """Other keys of the configuration, which are the agent's."""
    guidance: str
    problems: Sequence[Problem]


def check(raw: Mapping[str, Any], config_dir: Path, agent_type: str | None, adapters: Adapters) -> Checked:
    """Check a judge's configuration. `agent_type` is the test case's agent, if there is one."""
    judge, problems = read_config(raw)
    guidance = read_guidance(raw, config_dir)
    if isinstance(guidance, Problem):
        problems.append(guidance)
        guidance = ""
    problems += check_judge_agent(raw, agent_type, config_dir, adapters)
    options = {key: value for key, value in raw.items() if key not in OWN_KEYS}
    return Checked(judge=None if problems else judge, options=options, guidance=guidance, problems=problems)
