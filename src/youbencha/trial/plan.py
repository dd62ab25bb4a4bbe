"""Plan a trial: everything is decided and checked before anything is cloned or started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from youbencha.adapters import BaseAdapter, get_adapter
from youbencha.errors import Problem, YouBenchaError
from youbencha.evaluators import get_evaluator
from youbencha.gateway.upstreams import ConfiguredModel
from youbencha.spec.document import Document
from youbencha.spec.loader import LoadedCase, NamedEvaluator, check_test_case, load_test_case
from youbencha.spec.sandbox import SandboxSpec
from youbencha.spec.testcase import AgentOverride, TestCase
from youbencha.spec.variables import REFERENCE
from youbencha.text import plural
from youbencha.trial.agent_files import custom_agent_problems, home_problem
from youbencha.trial.checks import adapter_config, check_parts
from youbencha.trial.context import Host
from youbencha.trial.gateway_plan import GatewayOptions, GatewayPlan, check_replay, plan_gateway
from youbencha.workspace.source import RemoteUrl, read_source

if TYPE_CHECKING:
    from youbencha.gateway.cassette.cassette import Contents


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A test case with everything that settings and environment add to it. Plain data: it can be pickled."""

    case: TestCase
    name: str
    config_file: Path | None
    config_dir: Path
    """Where relative paths of the test case start."""
    config_hash: str
    evaluators: tuple[NamedEvaluator, ...]
    agent_config: Mapping[str, object]
    model: str | None
    env: Mapping[str, str] = field(repr=False)
    """The agent's environment; it may contain secrets."""
    timeout_s: float
    workspace_dir: Path
    max_concurrent: int
    """Evaluators that run at the same time."""
    sandbox: SandboxSpec
    gateway: GatewayPlan | None = None
    """None: the agent reaches its model directly."""

    @property
    def agent_is_in_image(self) -> bool:
        """Whether the agent's CLI is part of the image, so that it cannot be checked here."""
        in_container = self.sandbox.type == "docker"
        return in_container and (self.sandbox.agent == "image" or not get_adapter(self.case.agent.type).needs_model)

    @property
    def has_judge(self) -> bool:
        """Whether an evaluator uses a model."""
        return any(get_evaluator(entry.name).uses_model for entry in self.evaluators)

    def configured_models(self, user: str) -> Iterator[ConfiguredModel]:
        """Yield the models that the agent and evaluators will request from providers through the gateway, if known.

        `user` is the agent's name.
        """
        if self.gateway is None or not self.gateway.reaches_providers:
            return
        yield from self.gateway.agent_model(user)
        for entry in self.evaluators:
            requested = get_evaluator(entry.name).requested_model(
                entry.config, entry.config_dir, self.case.agent, self.env
            )
            if requested and (upstream := self.gateway.upstreams.get(requested[0])):
                yield ConfiguredModel(upstream, requested[1], entry.name)


class PlanOptions(NamedTuple):
    """Options that override the test case."""

    workspace_dir: Path | str | None = None
    gateway: GatewayOptions = GatewayOptions()
    sandbox: SandboxSpec | None = None
    resolve_env: bool = True
    """False if the plan will not be run: then keys need not be set."""


def plan_trial(case: TestCase, host: Host, *, directory: Path | str, options: PlanOptions = PlanOptions()) -> Plan:  # noqa: B008 - immutable
    """Check and plan a test case that is in no file. Relative paths in it start at `directory`.

    All problems are one ConfigError.
    """
    check = partial(check_parts, env=host.env if options.resolve_env else None)
    return plan_loaded(check_test_case(case, directory, check=check), host, options)


def load_plan(
    file: Path | str,
    host: Host,
    *,
    variables: Mapping[str, Any] | None = None,
    agent: AgentOverride | None = None,
    options: PlanOptions = PlanOptions(),  # noqa: B008 - immutable
) -> Plan:
    """Read, check and plan a test case. All problems are one ConfigError."""
    return plan_loaded(load_case(file, host, variables=variables, agent=agent), host, options)


def load_case(
    file: Path | str, host: Host, *, variables: Mapping[str, Any] | None = None, agent: AgentOverride | None = None
) -> LoadedCase[TestCase]:
    """Read and check a test case, with the settings' variables under those given."""
    known = {**host.settings.settings.variables, **(variables or {})}
    return load_test_case(file, known, check=partial(check_parts, env=host.env), agent=agent)


def plan_loaded(loaded: LoadedCase[TestCase], host: Host, options: PlanOptions = PlanOptions()) -> Plan:  # noqa: B008 - immutable
    """Plan a test case that was checked, with settings and environment."""
    case, settings = loaded.case, host.settings
    defaults = settings.settings
    own_model = case.agent.config.get("model")
    adapter = get_adapter(case.agent.type, host.env)
    model = case.agent.model or (None if own_model else defaults.agent.model)
    env = {}
    if options.resolve_env:
        env = resolved_environment(case.agent.env, host.env, loaded.document, ("agent", "env"))
    sandbox = merged_sandbox(options.sandbox, case.sandbox, defaults.sandbox)
    gateway = None
    if sandbox.type == "docker" and sandbox.network == "none":
        refuse_without_model(adapter)
    elif options.resolve_env:
        gateway = plan_gateway(
            case.gateway.merged_over(settings.gateway) if case.gateway else settings.gateway,
            options.gateway,
            adapter=adapter,
            agent_env=env,
            model=model or (own_model if isinstance(own_model, str) else None),
            harness_env=host.env,
            config_dir=loaded.directory,
            gateway_only=sandbox.type == "docker" and sandbox.network == "gateway",
        )
    check_replay(loaded, gateway, env)
    if options.resolve_env and case.agent.has_files:
        _check_home(loaded, adapter, sandbox, host, env, gateway)
    return Plan(
        case=case,
        name=loaded.name,
        config_file=loaded.file,
        config_dir=loaded.directory,
        config_hash=loaded.config_hash,
        evaluators=tuple(evaluator.named() for evaluator in loaded.evaluators),
        agent_config=adapter_config(case.agent.model_dump(include={"config", "agent_name", "version"})),
        model=model,
        env=env,
        timeout_s=case.timeout_s or defaults.agent_timeout_s,
        workspace_dir=Path(options.workspace_dir or _workspace(loaded, host)),
        max_concurrent=defaults.evaluators.max_concurrent,
        gateway=gateway,
        sandbox=sandbox,
    )


def _check_home(
    loaded: LoadedCase[TestCase],
    adapter: BaseAdapter,
    sandbox: SandboxSpec,
    host: Host,
    env: Mapping[str, str],
    gateway: GatewayPlan | None,
) -> None:
    """Raise a ConfigError if the agent gets files in its home, but runs in the user's."""
    problem = home_problem(
        loaded.case.agent, adapter, sandbox, harness_env=host.env, agent_env=env, behind_gateway=gateway is not None
    )
    if problem is not None:
        raise loaded.document.error([loaded.document.problem(problem.keys, problem.message, problem.hint)])


def refuse_without_model(adapter: BaseAdapter) -> None:
    """Raise YouBenchaError if the agent cannot work in a container without a network."""
    if adapter.needs_model:
        raise YouBenchaError(
            "SANDBOX_NO_MODEL",
            f"{adapter.name} cannot reach its model with `network: none`.",
            hint="Remove `network`: by default, the container reaches only the gateway.",
        )


def merged_sandbox(*strongest_first: SandboxSpec | None) -> SandboxSpec:
    """Merge the sandboxes of the options, the file and the settings, which always have one."""
    *overrides, result = (spec for spec in strongest_first if spec is not None)
    for override in reversed(overrides):
        result = override.merged_over(result)
    return result


def _workspace(loaded: LoadedCase[TestCase], host: Host) -> Path:
    path = loaded.case.workspace_dir
    return host.settings.workspace_dir if path is None else loaded.directory / Path(path).expanduser()


async def missing_prerequisites(loaded: LoadedCase[TestCase], plan: Plan, host: Host) -> list[Problem]:
    """Return what a run needs and this machine lacks. The file is valid nevertheless, perhaps for another machine.

    Nothing is fetched, so remote repositories are not checked.
    """
    adapter = get_adapter(plan.case.agent.type, host.env)
    return [*await _too_old(loaded, plan, adapter), *await _not_in_repository(loaded, plan, host, adapter)]


async def check_version(plan: Plan, adapter: BaseAdapter) -> None:
    """Raise YouBenchaError if the agent that a trial would run here is too old."""
    if not plan.agent_is_in_image:
        await adapter.check_version(plan.agent_config, plan.env)


async def _too_old(loaded: LoadedCase[TestCase], plan: Plan, adapter: BaseAdapter) -> list[Problem]:
    try:
        await check_version(plan, adapter)
    except YouBenchaError as error:
        return [loaded.document.problem(("agent",), error.message, error.hint)]
    return []


async def _not_in_repository(
    loaded: LoadedCase[TestCase], plan: Plan, host: Host, adapter: BaseAdapter
) -> list[Problem]:
    source = read_source(plan.case.repo, plan.config_dir)
    if isinstance(source, RemoteUrl):
        return []
    if not source.is_dir():
        return [loaded.document.problem(("repo",), f"the directory {source} does not exist", "a run needs it")]
    try:
        repository = await host.open_plan_repository(plan, lambda *_: None)
    except YouBenchaError as error:
        return [loaded.document.problem(("repo",), error.message, error.hint)]
    found = await custom_agent_problems(plan, adapter, repository)
    outside = ("agent",) if plan.case.agent.agent_name is not None else ("agent", "config")
    return [loaded.document.problem((*outside, *each.keys), each.message, each.hint) for each in found]


def resolved_environment(
    values: Mapping[str, str], harness: Mapping[str, str], document: Document, path: tuple[str, ...]
) -> dict[str, str]:
    """The agent's variables with `${NAME}` taken from the harness's environment, so that no file need contain a key.

    `path` is where they are in the document.
    """
    problems: list[Problem] = []

    def value(name: str, text: str) -> str:
        for escape, variable in REFERENCE.findall(text):
            if not escape and variable not in harness:
                message = f"${{{variable}}} is set neither in the settings' variables nor in the environment"
                problems.append(document.problem((*path, name), message, f"export {variable} first"))
        return REFERENCE.sub(lambda m: m.group()[1:] if m[1] else harness.get(m[2], ""), text)

    env = {name: value(name, text) for name, text in values.items()}
    if problems:
        raise document.error(problems)
    return env


class RecordingContents(NamedTuple):
    """What a cassette contains, and what a replay of this plan will not find in it."""

    summary: str
    missing: tuple[str, ...] = ()


def preview_recording(plan: Plan) -> RecordingContents | None:
    """Preview a replay; None if no cassette will be replayed. Raises YouBenchaError if it is unusable.

    The requests are not known in advance, so a replay may fail although nothing is missing here.
    """
    gateway = plan.gateway
    if gateway is None or gateway.spec.cassette is None or gateway.cassette_dir is None:
        return None
    mode = gateway.spec.cassette.mode
    if mode == "record":
        return None
    if mode == "auto" and not gateway.cassette_dir.is_dir():
        return RecordingContents("nothing yet")
    from youbencha.gateway.cassette.cassette import read_contents  # takes 30 ms to load, and few runs need it

    contents = read_contents(gateway.cassette_dir)
    return RecordingContents(_summary(contents), tuple(_missing(contents, plan)))


def _summary(contents: Contents) -> str:
    models = f" of {', '.join(contents.models)}" if contents.models else ""
    apis = f" ({', '.join(contents.apis)})" if contents.apis else ""
    doubts = f"; a replay may fail: {contents.doubts}" if contents.doubts else ""
    return f"{plural(contents.exchanges, 'exchange')}{models}{apis}{doubts}"


def _missing(contents: Contents, plan: Plan) -> Iterator[str]:
    assert plan.gateway is not None
    kind, model = plan.case.agent.type, plan.gateway.model
    provider = get_adapter(kind).gateway_provider(model, plan.env)
    if provider and not any(api.startswith(provider) for api in contents.apis):
        yield f"any request to the API that {kind} uses ({provider})"
    elif model and not any(_may_be(model, name) for name in contents.models):
        yield f"any request to the model {model}"
    if contents.outdated:
        yield f"valid answers: {contents.outdated} of {contents.exchanges} were recorded by an older youBencha"


def _may_be(configured: str, recorded: str) -> bool:
    """CLIs use aliases: `sonnet`, `anthropic/claude-sonnet-4-5` and `claude-sonnet-4-5` may be the same model."""
    bare = configured.rpartition("/")[2].partition("[")[0].lower()
    return bare in recorded.lower() or recorded.lower() in bare
