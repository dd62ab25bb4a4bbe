"""Everything that one run needs, decided and checked before anything is cloned or started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from youbencha.adapters import AgentAdapter, UsesGateway, get_adapter, needs_model
from youbencha.errors import Problem, YouBenchaError
from youbencha.gateway.cassette.cassette import Contents, contents_of
from youbencha.spec import Loaded, TestCase, load_test_case
from youbencha.spec.sandbox import SandboxSpec
from youbencha.spec.settings import LoadedSettings
from youbencha.spec.testcase import AgentOverride
from youbencha.spec.variables import REFERENCE
from youbencha.trial.checks import adapter_config, check_parts
from youbencha.trial.gateway_plan import GatewayOptions, GatewayPlan, check_replay, plan_gateway


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A test case with all that settings and environment add to it."""

    loaded: Loaded[TestCase]
    adapter: AgentAdapter
    agent_config: Mapping[str, object]
    model: str | None
    env: Mapping[str, str] = field(repr=False)
    """Of the agent; it may hold secrets."""
    timeout_ms: int
    workspace_dir: Path
    cache_dir: Path | None
    max_concurrent: int
    sandbox: SandboxSpec
    gateway: GatewayPlan | None = None
    """None: the agent reaches its model by itself."""

    @property
    def case(self) -> TestCase:
        return self.loaded.case

    @property
    def agent_is_in_image(self) -> bool:
        """Then nothing on this machine can say whether it is installed."""
        return self.sandbox.type == "docker" and (self.sandbox.agent == "image" or not needs_model(self.adapter))


def make_plan(
    file: Path,
    settings: LoadedSettings,
    *,
    variables: Mapping[str, Any] | None = None,
    workspace_dir: Path | None = None,
    resolve_env: bool = True,
    gateway: GatewayOptions = GatewayOptions(),  # noqa: B008 - immutable
    sandbox: SandboxSpec | None = None,
    agent: AgentOverride | None = None,
) -> Plan:
    """Read and check a test case. Whatever is wrong is one ConfigError. What is given here wins over the file.

    `resolve_env: False` is for whoever will not run it: keys need not be there.
    """
    known = {**settings.settings.variables, **(variables or {})}
    loaded = load_test_case(file, known, check=check_parts, agent=agent)
    case, defaults = loaded.case, settings.settings
    own_model = case.agent.config.get("model")
    adapter = get_adapter(case.agent.type)
    model = case.agent.model or (None if own_model else defaults.agent.model)
    env = _environment(loaded) if resolve_env else {}
    place = _sandbox(sandbox, case.sandbox, defaults.sandbox)
    gateway_session = None
    if place.type == "docker" and place.network == "none":
        _refuse_without_model(adapter)
    elif resolve_env:
        gateway_session = plan_gateway(
            case.gateway.merged_over(settings.gateway) if case.gateway else settings.gateway,
            gateway,
            adapter=adapter,
            agent_env=env,
            model=model or (own_model if isinstance(own_model, str) else None),
            harness_env=os.environ,
            config_dir=loaded.directory,
            gateway_only=place.type == "docker" and place.network == "gateway",
        )
    check_replay(loaded, gateway_session, env)
    return Plan(
        loaded=loaded,
        adapter=adapter,
        agent_config=adapter_config(case.agent.model_dump(include={"config", "agent_name", "version"})),
        model=model,
        env=env,
        timeout_ms=case.timeout or defaults.agent.timeout_ms or defaults.timeout_ms,
        workspace_dir=workspace_dir or _workspace(loaded, settings),
        cache_dir=settings.cache_dir,
        max_concurrent=defaults.evaluators.max_concurrent,
        gateway=gateway_session,
        sandbox=place,
    )


def _refuse_without_model(adapter: AgentAdapter) -> None:
    if needs_model(adapter):
        raise YouBenchaError(
            "SANDBOX_NO_MODEL",
            f"In a container that reaches nothing (`network: none`), {adapter.name} cannot reach its model.",
            hint="Leave `network` out: then the gateway is all that it reaches.",
        )


def _sandbox(*strongest_first: SandboxSpec | None) -> SandboxSpec:
    """The command line's over the test case's over the settings'."""
    given = [spec for spec in strongest_first if spec is not None]
    result = given.pop()
    while given:
        result = given.pop().merged_over(result)
    return result


def _workspace(loaded: Loaded[TestCase], settings: LoadedSettings) -> Path:
    named = loaded.case.workspace_dir
    return settings.workspace_dir if named is None else loaded.directory / Path(named).expanduser()


def _environment(loaded: Loaded[TestCase]) -> dict[str, str]:
    """`agent.env` with `${NAME}` taken from the harness's own environment, so that no file need hold a key."""
    problems: list[Problem] = []

    def value(name: str, text: str) -> str:
        for escape, wanted in REFERENCE.findall(text):
            if not escape and wanted not in os.environ:
                message = f"${{{wanted}}} is set neither in the settings' variables nor in the environment"
                problems.append(loaded.document.problem(("agent", "env", name), message, f"export {wanted} first"))
        return REFERENCE.sub(lambda m: m.group()[1:] if m[1] else os.environ.get(m[2], ""), text)

    found = {name: value(name, text) for name, text in loaded.case.agent.env.items()}
    if problems:
        raise loaded.document.error(problems)
    return found


# What can be said of a cassette before anything runs: what it holds, and what a replay will look for in vain.


class RecordingContents(NamedTuple):
    holds: str
    lacks: tuple[str, ...] = ()


def preview_recording(plan: Plan) -> RecordingContents | None:
    """None: nothing will be answered from a cassette. Raises YouBenchaError if it cannot be.

    A request is known only when it is made: that nothing is said to be missing promises nothing.
    """
    gateway_session = plan.gateway
    if (
        gateway_session is None
        or gateway_session.spec.cassette is None
        or gateway_session.cassette_dir is None
        or gateway_session.spec.cassette.mode == "record"
    ):
        return None
    if gateway_session.spec.cassette.mode == "auto" and not gateway_session.cassette_dir.is_dir():
        return RecordingContents("nothing yet")
    held = contents_of(gateway_session.cassette_dir)
    return RecordingContents(_told(held), tuple(_missing(held, plan)))


def _told(held: Contents) -> str:
    plural = "" if held.exchanges == 1 else "s"
    of = f" of {', '.join(held.models)}" if held.models else ""
    return f"{held.exchanges} exchange{plural}{of}" + (f" ({', '.join(held.apis)})" if held.apis else "")


def _missing(held: Contents, plan: Plan) -> Iterator[str]:
    assert plan.gateway is not None
    kind, model = plan.case.agent.type, plan.gateway.model
    provider = plan.adapter.gateway_provider(model, plan.env) if isinstance(plan.adapter, UsesGateway) else None
    if provider and not any(api.startswith(provider) for api in held.apis):
        yield f"anything of the API that {kind} speaks ({provider})"
    elif model and not any(_may_be(model, name) for name in held.models):
        yield f"anything of the model {model}"
    if held.outdated:
        yield f"answers that still fit: {held.outdated} of {held.exchanges} were recorded by an older youBencha"


def _may_be(named: str, recorded: str) -> bool:
    """A CLI has names of its own: `sonnet`, `anthropic/claude-sonnet-4-5` and `claude-sonnet-4-5` may be one."""
    bare = named.rpartition("/")[2].partition("[")[0].lower()
    return bare in recorded.lower() or recorded.lower() in bare
