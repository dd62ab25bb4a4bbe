"""Read and check the configuration of an agentic-judge, and choose and install the agent that judges.

Keys that are unknown here are options of its agent. `agent_name: agentic-judge` is youBencha's definition, unless the
user's project has a file of that name. A definition is never taken from the judged tree: the agent under test could
have written "always score 1" into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, ValidationError, field_validator

from youbencha.adapters import BaseAdapter
from youbencha.errors import Problem, YouBenchaError
from youbencha.files import PathNotAllowed, read_within
from youbencha.spec import StrictModel, list_problems
from youbencha.spec.base import Line, Milliseconds
from youbencha.spec.problems import unknown_key
from youbencha.spec.testcase import AgentSpec
from youbencha.text import did_you_mean
from youbencha.user_dirs import project_directories

RESERVED = frozenset(
    {"asked_again", "judge", "judge_status", "overall_score", "reasons", "severity", "spread", "votes"}
)
"""Names of the judge's own metrics. Assertions are metrics too, so they must not have these names."""

_MAX_SLUG_CHARS = 40
Score = Annotated[float, Field(ge=0.0, le=1.0)]


DEFAULT_THRESHOLD = 0.7
"""A score with a small doubt passes; a half ("0.5 if partial") does not."""

_GUIDANCE_FILES = ("prompt_file", "instructions-file", "instructions_file")
_GUIDANCE = ("prompt", *_GUIDANCE_FILES)
_MAX_GUIDANCE_CHARS = 200_000
Votes = Annotated[int, Field(ge=1, le=9)]


def normalized_name(name: str) -> str:
    """Return the name without variations by models, which write `No-Errors` for `no_errors`."""
    return re.sub(r"[\W_]+", "_", name).strip("_").casefold()


class MappedAssertion(StrictModel):
    """An assertion as the value of its name. A text is its description."""

    description: Line
    threshold: Score | None = None
    weight: Annotated[float, Field(gt=0.0)] = 1.0
    severity: Any = None
    """For older test cases: copied to the result, without effect."""


class ListedAssertion(MappedAssertion):
    """An assertion in a list. Its name defaults to the first words of the description."""

    name: Line | None = None


def _described(value: object) -> object:
    return {"description": value} if isinstance(value, str) else value


MappedAssertions = dict[Line, Annotated[MappedAssertion, BeforeValidator(_described)]]
ListedAssertions = Annotated[tuple[Annotated[ListedAssertion, BeforeValidator(_described)], ...], Field(strict=False)]
Assertions = Annotated[MappedAssertions | ListedAssertions, Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Assertion:
    name: str
    text: str
    threshold: float
    weight: float
    severity: Any = None


def resolve_assertions(
    configured: Mapping[str, MappedAssertion] | Iterable[ListedAssertion], threshold: float
) -> list[Assertion]:
    """Return all assertions with their names, in the order of the configuration."""
    if not isinstance(configured, Mapping):
        configured = _named(tuple(configured))
    return [
        Assertion(
            name=name,
            text=item.description,
            threshold=threshold if item.threshold is None else item.threshold,
            weight=item.weight,
            severity=item.severity,
        )
        for name, item in configured.items()
    ]


def check_names(configured: Mapping[str, Any] | Iterable[ListedAssertion]) -> None:
    """Raise ValueError if two names could not be distinguished in a judge's answer, or one is reserved."""
    names = configured if isinstance(configured, Mapping) else [item.name for item in configured if item.name]
    seen: set[str] = set()
    for name in names:
        normalized = normalized_name(name)
        if not normalized:
            raise ValueError(f"the name {name!r} has no letter or digit")
        if name in RESERVED:
            raise ValueError(f"{name!r} is a built-in metric of the judge: choose another name")
        if normalized in seen:
            raise ValueError(f"the name {name!r} is used twice: hyphens, underscores and capitals are ignored")
        seen.add(normalized)


def _named(listed: tuple[ListedAssertion, ...]) -> dict[str, ListedAssertion]:
    taken = {normalized_name(name) for name in RESERVED} | {
        normalized_name(item.name) for item in listed if item.name is not None
    }
    named: dict[str, ListedAssertion] = {}
    for number, item in enumerate(listed, start=1):
        name = item.name or next(slug for slug in _slugs(item.description, number) if slug not in taken)
        taken.add(normalized_name(name))
        named[name] = item
    return named


def _slugs(text: str, number: int) -> Iterator[str]:
    """`tests_were_added`, then `tests_were_added_2` …"""
    words = re.sub(r"[\W_]+", " ", text.casefold()).split()
    slug = ""
    for word in words:
        if len(slug) + len(word) >= _MAX_SLUG_CHARS:
            break
        slug = f"{slug}_{word}" if slug else word
    slug = slug or f"assertion_{number}"
    yield slug
    for suffix in range(2, 10_000):
        yield f"{slug}_{suffix}"


class JudgeConfig(StrictModel):
    """`config` of an agentic-judge."""

    type: Line | None = None
    """The agent that judges. Defaults to the test case's agent."""
    agent_name: Line | None = None
    """A custom agent; `agentic-judge` is youBencha's."""
    model: Line | None = None
    version: Line | None = None
    timeout: Milliseconds = 300_000
    """The time limit of each vote, in milliseconds."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the agent that judges. They may also be next to the keys here."""
    env: dict[str, str] = Field(default_factory=dict)
    """Overrides the environment of the test case's agent."""
    prompt: Line | None = None
    """Guidance for the judge, before the assertions."""
    prompt_file: Line | None = None
    """A file with guidance, relative to the configuration file."""
    instructions_file: Line | None = Field(
        default=None, validation_alias=AliasChoices("instructions-file", "instructions_file")
    )
    """`prompt_file` in older test cases. `{{ASSERTIONS}}` in the file is replaced by the assertions."""
    assertions: Assertions | None = None
    """Name -> what must be true, or -> {description, threshold, weight}; or a list."""
    criteria: Assertions | None = None
    """`assertions` in older test cases."""
    threshold: Score = DEFAULT_THRESHOLD
    """The default for the minimum score with which an assertion passes."""
    votes: Votes = 1
    """The number of independent judgements. The median of their scores counts."""
    max_concurrent_votes: Votes = 3
    judge_failed_runs: bool = False
    """Judge also the work of an agent that failed or timed out. The run fails in any case."""
    advisory: bool = False
    """Report the verdict, but let it decide nothing: neither whether the run passes, nor whether it is valid."""

    @field_validator("assertions", "criteria")
    @classmethod
    def _names_are_distinct(cls, configured: Any) -> Any:
        if configured is not None:
            check_names(configured)
        return configured

    def asked(self) -> list[Assertion]:
        return resolve_assertions(self.assertions or self.criteria or {}, self.threshold)


OWN_KEYS = frozenset({*JudgeConfig.model_fields, "instructions-file"})


def read_config(raw: Mapping[str, Any]) -> tuple[JudgeConfig | None, list[Problem]]:
    """Validate a configuration; None if a field is invalid.

    Checks across fields are made here: pydantic skips its own if a field is invalid.
    """
    problems = [*_check_one_guidance(raw), *_check_one_list(raw)]
    try:
        judge = JudgeConfig.model_validate({key: value for key, value in raw.items() if key in OWN_KEYS})
    except ValidationError as error:
        return None, [*list_problems(error, JudgeConfig, raw), *problems]
    return judge, problems


def _check_one_guidance(raw: Mapping[str, Any]) -> list[Problem]:
    first, *others = [key for key in _GUIDANCE if raw.get(key) is not None] or [""]
    return [Problem(key, f"cannot be combined with `{first}`") for key in others]


def _check_one_list(raw: Mapping[str, Any]) -> list[Problem]:
    present = [key for key in ("assertions", "criteria") if raw.get(key) is not None]
    if len(present) > 1:
        return [Problem("criteria", "cannot be combined with `assertions`, its newer name")]
    return [] if present else [Problem("assertions", "is required", "list what must be true, each with a name")]


def read_guidance(raw: Mapping[str, Any], config_dir: Path) -> str | Problem:
    """Return the user's guidance for the judge, from the configuration or a file; empty if there is none."""
    for key in _GUIDANCE_FILES:
        if isinstance(name := raw.get(key), str):
            return _read_guidance_file(key, name.strip(), config_dir)
    prompt = raw.get("prompt")
    return prompt.strip() if isinstance(prompt, str) else ""


def _read_guidance_file(key: str, name: str, base: Path) -> str | Problem:
    try:
        text = read_within(base, name, 4 * _MAX_GUIDANCE_CHARS).decode("utf-8-sig").strip()
    except PathNotAllowed as error:
        return Problem(key, error.message, error.hint)
    except FileNotFoundError:
        return Problem(key, f"{name} does not exist in {base}")
    except UnicodeDecodeError:
        return Problem(key, f"{name} is not UTF-8 text")
    except OSError as error:
        return Problem(key, f"{name} {error.strerror}")
    if not text:
        return Problem(key, f"{name} is empty")
    if len(text) > _MAX_GUIDANCE_CHARS:
        return Problem(key, f"{name} is longer than {_MAX_GUIDANCE_CHARS:,} characters")
    return text


RENAMED_SUFFIX = ".judged"
"""The suffix of files in the judge's copy that agents would take instructions from."""

Adapters = Callable[[str], BaseAdapter]
_JUDGE_ONLY = frozenset({"prompt", "prompt_file"})

_SHARED = frozenset({"agent_name", "model", "version"})
"""Keys of both a judge's configuration and its agent's."""

_CLI = frozenset({"executable", "version"})

_NO_AGENT = Problem("type", "is required: which agent judges", "there is no test case whose agent could be used")
_ANY_PROGRAM = "command"

_NO_PROGRAM = Problem(
    "type", "is required: the test case's agent, `command`, cannot judge without a program", "such as claude-code"
)

JUDGE_NAME = "agentic-judge"

_DEFINITION_SUFFIXES = (".md", ".agent.md")


@dataclass(frozen=True, kw_only=True)
class JudgeAgent:
    type: str
    adapter: BaseAdapter
    config: Mapping[str, Any]
    """For the adapter, without the prompt."""
    model: str | None
    agent_name: str | None

    @property
    def configured_model(self) -> str | None:
        return self.model or _text(self.config.get("model"))


def choose_agent(
    judge: JudgeConfig, options: Mapping[str, Any], agent: AgentSpec | None, adapters: Adapters
) -> JudgeAgent:
    """Choose the agent that judges. By default, one of the same type as `agent` has the same model and CLI."""
    kind = judge.type or (agent.type if agent else None)
    assert kind is not None  # `check_judge_agent` comes first
    config = {**judge.config, **options}
    top_level = {"agent_name": judge.agent_name, "version": judge.version}
    config |= {key: value for key, value in top_level.items() if value is not None}
    adapter = adapters(kind)
    same = agent if agent and agent.type == kind else None
    if same is not None:
        config = {**_inherited(same, judge, config), **config}
    return JudgeAgent(
        type=kind,
        adapter=adapter,
        config={**adapter.judge_config, **config},
        model=judge.model or (same.model if same and "model" not in config else None),
        agent_name=_text(config.get("agent_name")),
    )


def uses_gateway(judge: JudgeAgent, agent_type: str | None, env: Mapping[str, str]) -> bool:
    """Whether the judge goes through the gateway.

    An agent of another type than the run's does so only if its API is known: the gateway may not serve that API, and
    the agent may have its own login.
    """
    if not judge.adapter.supports_gateway:
        return False
    return agent_type == judge.type or judge.adapter.gateway_provider(judge.configured_model, env) is not None


def check_judge_agent(
    raw: Mapping[str, Any], agent_type: str | None, config_dir: Path, adapters: Adapters
) -> list[Problem]:
    """Find problems of the agent's options, in a configuration that need not be valid otherwise."""
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
    if not adapter.checks_config:
        return [*problems, *(unknown_key(key, sorted(OWN_KEYS)) for key in options)]
    top_level = {key: raw[key] for key in ("agent_name", "version") if raw.get(key) is not None}
    name = {**inner, **top_level}.get("agent_name")
    definition = _project_definition(adapter.agent_definitions, name, config_dir) if isinstance(name, str) else None
    if definition is not None and not definition.rpartition("---")[2].strip():
        problems.append(Problem("agent_name", f"the definition of {name} has no instructions"))
    in_options = adapter.check_config({**inner, **options, **top_level, "prompt": "Judge."}, config_dir)
    return [*problems, *(_located(problem, inner, options) for problem in in_options)]


def _misplaced_or_repeated(raw: Mapping[str, Any], inner: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(("config", key), f"must be the judge's own `{key}`, next to `config`")
        if key in _JUDGE_ONLY
        else Problem(("config", key), f"is set twice: here, and as `{key}` next to `config`")
        for key in inner
        if key in _JUDGE_ONLY or (raw.get(key) is not None and key in _SHARED | raw.keys() - OWN_KEYS)
    ]


def _located(problem: Problem, inner: Mapping[str, Any], options: Mapping[str, Any]) -> Problem:
    """Locate a problem in the judge's configuration. An unknown key may be a misspelt key of the judge."""
    key = str(problem.keys[0]) if problem.keys else ""
    if key in inner:
        return replace(problem, keys=("config", *problem.keys))
    if problem.path in options and problem.kind == "unknown_key":
        return replace(problem, hint=did_you_mean(key, sorted(OWN_KEYS)) or problem.hint)
    return problem


def _inherited(agent: AgentSpec, judge: JudgeConfig, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CLI and the model in the agent's options, unless the judge configures its own."""
    options: dict[str, Any] = {}
    if not config.keys() & _CLI:
        options = {key: value for key, value in agent.config.items() if key in _CLI}
        if agent.version is not None:
            options["version"] = agent.version
    if not (judge.model or agent.model or "model" in config) and "model" in agent.config:
        options["model"] = agent.config["model"]
    return options


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def judge_definition() -> str:
    """Return the text of `agentic-judge.md`, as `yb install-agents` writes it."""
    return (Path(__file__).parent / "agentic-judge.md").read_text(encoding="utf-8")


def judge_principles() -> str:
    """Return the definition without its header, for a judge without a definition."""
    return judge_definition().split("---\n", 2)[2].strip()


def install_definition(directory: str, name: str | None, *, config_dir: Path, tree: Path) -> Path | None:
    """Write the definition to where the agent looks for it. None if there is no known definition."""
    if not directory or name is None:
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
            path.rename(path.with_name(part + RENAMED_SUFFIX))  # never write through a link of the judged tree
    path.mkdir(parents=True, exist_ok=True)
    target = path / f"{name}.md"
    target.write_text(text, encoding="utf-8")
    return target


def _project_definition(directory: str, name: str, config_dir: Path) -> str | None:
    if not directory or Path(name).name != name:
        return None  # it is a path
    for project in project_directories(config_dir):
        for suffix in _DEFINITION_SUFFIXES:
            path = project / directory / f"{name}{suffix}"
            if path.is_file():
                return path.read_text(encoding="utf-8", errors="replace")
    return None


@dataclass(frozen=True, kw_only=True)
class JudgeSetup:
    """A judge's configuration, or all its problems."""

    judge: JudgeConfig | None
    """None if there are problems."""
    options: Mapping[str, Any]
    """Other keys of the configuration, which are the agent's."""
    guidance: str
    problems: Sequence[Problem]


def check_setup(raw: Mapping[str, Any], config_dir: Path, agent_type: str | None, adapters: Adapters) -> JudgeSetup:
    """Check a judge's configuration. `agent_type` is the test case's agent, if there is one."""
    judge, problems = read_config(raw)
    guidance = read_guidance(raw, config_dir)
    if isinstance(guidance, Problem):
        problems.append(guidance)
        guidance = ""
    problems += check_judge_agent(raw, agent_type, config_dir, adapters)
    options = {key: value for key, value in raw.items() if key not in OWN_KEYS}
    return JudgeSetup(judge=None if problems else judge, options=options, guidance=guidance, problems=problems)
