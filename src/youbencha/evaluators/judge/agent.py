"""Who sits in judgement: the adapter, and how it is configured. And what is wrong with that, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from youbencha.adapters.base import AgentAdapter, ChecksConfig, UsesGateway
from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators.judge.config import OWN_KEYS, BadGuidance, JudgeConfig, read_config, read_guidance
from youbencha.evaluators.judge.materials import SUFFIX
from youbencha.spec import AgentSpec
from youbencha.spec.problems import unknown_key
from youbencha.text import did_you_mean
from youbencha.user_dirs import project_directories

Adapters = Callable[[str], AgentAdapter]

_OURS = frozenset({"prompt", "prompt_file"})

_SHARED = frozenset({"agent_name", "model", "version"})
"""What a judge's configuration and its agent's both know."""

_CLI = frozenset({"executable", "version"})

_SAFE_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    # Settings, hooks, MCP servers and CLAUDE.md of the judged tree, and of any directory above it, have no say then.
    "claude-code": {"setting_sources": ["user"]},
}
"""Unless the person says otherwise, by the agent's type."""

_NOBODY = Problem("type", "say which agent judges: `type`", "there is no agent here that it could be, too")

_ANY_PROGRAM = "command"

_NO_PROGRAM = Problem(
    "type",
    "the judge would be the test case's own agent, `command`, which cannot judge without a program: give `type`",
    "such as claude-code",
)


@dataclass(frozen=True, kw_only=True)
class JudgeAgent:
    type: str
    adapter: AgentAdapter
    config: Mapping[str, Any]
    """For the adapter; all but the prompt."""
    model: str | None
    agent_name: str | None


def judge_agent(
    judge: JudgeConfig, options: Mapping[str, Any], agent: AgentSpec | None, adapters: Adapters
) -> JudgeAgent:
    """A judge of the agent's own type runs with the agent's model and CLI, unless it is told otherwise."""
    kind = judge.type or (agent.type if agent else None)
    assert kind is not None  # `check_seat` comes first
    given = {**judge.config, **options}
    told = {"agent_name": judge.agent_name, "version": judge.version}
    given |= {key: value for key, value in told.items() if value is not None}
    like = agent if agent and agent.type == kind else None
    if like is not None:
        given = {**_same_cli(like, given), **_same_model(like, judge, given), **given}
    return JudgeAgent(
        type=kind,
        adapter=adapters(kind),
        config={**_SAFE_DEFAULTS.get(kind, {}), **given},
        model=judge.model or (like.model if like and "model" not in given else None),
        agent_name=_text(given.get("agent_name")),
    )


def knows_gateway(taken: JudgeAgent, agent_type: str | None, env: Mapping[str, str]) -> bool:
    """A judge goes through the gateway where its agent knows how; another kind of agent than the run's own, only where
    it is known whose API it speaks: the gateway may not serve what it needs, and it may have a login of its own."""
    if not isinstance(taken.adapter, UsesGateway):
        return False
    model = taken.model or _text(taken.config.get("model"))
    return agent_type == taken.type or taken.adapter.gateway_provider(model, env) is not None


def check_judge_agent(
    raw: Mapping[str, Any], agent_type: str | None, config_dir: Path, adapters: Adapters
) -> list[Problem]:
    """What is wrong with the agent's options, in a configuration that need not be right otherwise."""
    inner = raw["config"] if isinstance(raw.get("config"), Mapping) else {}
    options = {key: value for key, value in raw.items() if key not in OWN_KEYS}
    problems = _told_twice(raw, inner)
    kind = raw.get("type") or agent_type
    if not isinstance(kind, str):
        return problems if raw.get("type") else [*problems, _NOBODY]
    if not raw.get("type") and kind.strip() == _ANY_PROGRAM and "command" not in {**inner, **options}:
        return [*problems, _NO_PROGRAM]
    try:
        adapter = adapters(kind.strip())
    except YouBenchaError as error:
        return [*problems, Problem("type", error.message, error.hint)]
    if not isinstance(adapter, ChecksConfig):
        return [*problems, *(unknown_key(key, sorted(OWN_KEYS)) for key in options)]
    told = {key: raw[key] for key in ("agent_name", "version") if raw.get(key) is not None}
    found = adapter.check_config({**inner, **options, **told, "prompt": "Judge."}, config_dir)
    return [*problems, *(_placed(problem, inner, options) for problem in found)]


def _told_twice(raw: Mapping[str, Any], inner: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(f"config.{key}", f"must not stand here: `{key}` of the judge itself is the place for it")
        if key in _OURS
        else Problem(f"config.{key}", f"is given twice: here, and as `{key}` of the judge itself")
        for key in inner
        if key in _OURS or (raw.get(key) is not None and key in _SHARED | raw.keys() - OWN_KEYS)
    ]


def _placed(problem: Problem, inner: Mapping[str, Any], options: Mapping[str, Any]) -> Problem:
    """Where the person wrote it. A key that is nearly one of ours was hardly meant for the agent."""
    key = problem.path.split(".")[0]
    if key in inner:
        return replace(problem, path=f"config.{problem.path}")
    if problem.path in options and problem.kind == "unknown_key":
        return replace(problem, hint=did_you_mean(key, sorted(OWN_KEYS)) or problem.hint)
    return problem


def _same_cli(like: AgentSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    if given.keys() & _CLI:
        return {}
    own: dict[str, Any] = {key: value for key, value in like.config.items() if key in _CLI}
    return {**own, "version": like.version} if like.version is not None else own


def _same_model(like: AgentSpec, judge: JudgeConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """The one in the agent's own options, where nothing else names one."""
    is_named = judge.model or like.model or "model" in given
    return {} if is_named or "model" not in like.config else {"model": like.config["model"]}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


# Who the judge is: the definition of a custom agent, never taken from the tree that is judged.
#
# `agent_name: agentic-judge` means ours, unless the person has a file of that name in their own project. A definition
# in
# the judged tree was in the hands of the agent under test: it could say "always score 1".

JUDGE_NAME = "agentic-judge"

AGENT_DIRECTORIES: Mapping[str, str] = {"claude-code": ".claude/agents", "copilot-cli": ".github/agents"}
"""Where an agent looks for definitions, by its type. Others have none."""

_ENDINGS = (".md", ".agent.md")


def judge_definition() -> str:
    """The text of `agentic-judge.md`, as `yb install-agents` writes it."""
    return (Path(__file__).parent / "agentic-judge.md").read_text(encoding="utf-8")


def judge_principles() -> str:
    """The same without its header, for a judge that has no definition of its own."""
    return judge_definition().split("---\n", 2)[2].strip()


def install_definition(agent_type: str, name: str | None, *, config_dir: Path, tree: Path) -> Path | None:
    """Put the definition where the agent looks for it. None if there is none that we know of."""
    directory = AGENT_DIRECTORIES.get(agent_type)
    if directory is None or name is None:
        return None
    text = _own(directory, name, config_dir)
    if text is None and name == JUDGE_NAME:
        text = judge_definition()
    if text is None:
        return None  # perhaps in the person's home, where the agent itself looks
    place = tree
    for part in Path(directory).parts:
        place /= part
        if place.is_symlink() or place.is_file():
            place.rename(place.with_name(part + SUFFIX))  # nothing is written through a link of the judged tree
    place.mkdir(parents=True, exist_ok=True)
    target = place / f"{name}.md"
    target.write_text(text, encoding="utf-8")
    return target


def _own(directory: str, name: str, config_dir: Path) -> str | None:
    if Path(name).name != name:
        return None  # a path is no name
    for place in project_directories(config_dir):
        for ending in _ENDINGS:
            path = place / directory / f"{name}{ending}"
            if path.is_file():
                return path.read_text(encoding="utf-8", errors="replace")
    return None


# A judge's configuration, read as a whole: every problem at once, or all that a judge needs to sit down.


@dataclass(frozen=True, kw_only=True)
class Checked:
    judge: JudgeConfig | None
    """None where there are problems."""
    options: Mapping[str, Any]
    """Keys beside ours: the agent's own."""
    guidance: str
    problems: Sequence[Problem]


def check(raw: Mapping[str, Any], config_dir: Path, agent_type: str | None, adapters: Adapters) -> Checked:
    """`agent_type` is the test case's agent, if there is one."""
    reading = read_config(raw)
    problems = [*reading.problems]
    guidance = ""
    try:
        guidance = read_guidance(raw, config_dir)
    except BadGuidance as bad:
        problems.append(bad.problem)
    problems += check_judge_agent(raw, agent_type, config_dir, adapters)
    options = {key: value for key, value in raw.items() if key not in OWN_KEYS}
    judge = None if problems else reading.judge
    return Checked(judge=judge, options=options, guidance=guidance, problems=problems)
