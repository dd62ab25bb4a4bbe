"""Decide whether a trial has a gateway, and with which keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from youbencha.adapters import BaseAdapter
from youbencha.errors import YouBenchaError
from youbencha.evaluators import get_evaluator
from youbencha.gateway.access import Provider
from youbencha.gateway.upstreams import ConfiguredModel, Upstream, find_upstreams, key_names, read_secrets
from youbencha.spec.gateway import CassetteSpec, GatewaySpec, GatewayType
from youbencha.spec.loader import LoadedCase
from youbencha.spec.testcase import TestCase
from youbencha.workspace import public_url


class GatewayOptions(NamedTuple):
    """Options of the command line, which override the test case."""

    type: GatewayType | None = None
    budget_usd: float | None = None
    cassette: CassetteSpec | None = None


@dataclass(frozen=True, kw_only=True)
class GatewayPlan:
    """A gateway that a trial will go through."""

    type: Literal["builtin", "litellm"]
    spec: GatewaySpec
    upstreams: Mapping[Provider, Upstream]
    """Empty for a replay, which sends nothing upstream. The agent's own comes first."""
    provider: Provider | None = None
    """The provider of the API that the agent uses, if it is known."""
    model: str | None = None
    """The agent's, if it is known."""
    resolved: tuple[str, ...] | None = None
    """Patterns of the names that the agent requests, if `model` is an alias."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values to redact, besides those of the environment."""
    cassette_dir: Path | None = None
    litellm_config: Path | None = None

    @property
    def reaches_providers(self) -> bool:
        """Whether every request goes to a provider: not to LiteLLM, and none is replayed."""
        return self.type == "builtin" and (self.spec.cassette is None or self.spec.cassette.mode == "record")

    @property
    def custom_addresses(self) -> tuple[str, ...]:
        """Descriptions of the addresses that keys and requests are sent to, except the providers' own."""
        if self.type == "litellm" and self.spec.litellm.url:
            return (f"LiteLLM at {public_url(self.spec.litellm.url)}",)
        others = [upstream for upstream in self.upstreams.values() if not upstream.is_default_address]
        return tuple(f"{upstream.provider} at {public_url(upstream.url)}" for upstream in others)

    def agent_model(self, user: str) -> Iterator[ConfiguredModel]:
        """Yield the agent's model if its name at the provider is known. `user` is the agent's name."""
        upstream = self.upstreams.get(self.provider) if self.provider else None
        if self.reaches_providers and upstream and self.model and self.resolved is None:
            yield ConfiguredModel(upstream, self.model, user)


async def check_models(models: Iterable[ConfiguredModel]) -> None:
    """Raise `MODEL_UNUSABLE` if a provider does not know one of these models. For use before a run costs anything."""
    if models := list(models):
        from youbencha.gateway import model_check  # aiohttp takes 0.15 s to load

        await model_check.check_models(models)


def plan_gateway(
    spec: GatewaySpec,
    options: GatewayOptions,
    *,
    adapter: BaseAdapter,
    agent_env: Mapping[str, str],
    model: str | None,
    harness_env: Mapping[str, str],
    config_dir: Path,
    gateway_only: bool = False,
) -> GatewayPlan | None:
    """Plan the gateway; None if the agent reaches its model directly, with its own credentials.

    `gateway_only`: the agent runs where it can reach nothing else.
    """
    spec = _with_options(spec, options)
    needed = _needed_for(spec)
    if needed is None and gateway_only and adapter.needs_model:
        needed = "an agent in a container with `network: gateway`"
    if spec.type == "none":
        if needed:
            raise _impossible(f"{needed} requires a gateway, but `gateway: none` disables it")
        return None
    required = spec.type != "auto" or needed is not None
    if not adapter.supports_gateway:
        if required:
            feature = needed or f"gateway: {spec.type}"
            raise _impossible(f"{feature} is not available: {adapter.name} does not support the gateway")
        return None
    if not required and adapter.credentials_in(agent_env):
        return None  # a key or an address in `agent.env` decides how the agent reaches its model
    secrets = read_secrets(config_dir / Path(spec.secrets_file).expanduser()) if spec.secrets_file else {}
    env = {**harness_env, **agent_env, **secrets}
    replays = spec.cassette is not None and spec.cassette.mode == "replay"
    external_litellm = spec.type == "litellm" and spec.litellm.url is not None
    upstreams = {} if replays or external_litellm else find_upstreams(spec, env)
    provider = adapter.gateway_provider(model, agent_env)
    # With `auto`, a program that may use any API gets a gateway only if it can reach nothing else.
    useful = provider in upstreams if provider else gateway_only and bool(upstreams)
    if not required and not useful:
        return None
    if not replays and not external_litellm and not (provider in upstreams if provider else upstreams):
        if spec.type == "auto" and gateway_only and not adapter.needs_model:
            return None  # a budget is kept: it reaches no model
        raise _no_key(provider)
    return GatewayPlan(
        type="litellm" if spec.type == "litellm" and not replays else "builtin",
        spec=spec,
        upstreams=_own_first(upstreams, provider),
        provider=provider,
        model=model,
        resolved=adapter.resolve_alias(model) if model else None,
        secrets={**secrets, **{f"{name}_KEY": upstream.key for name, upstream in upstreams.items()}},
        cassette_dir=_cassette_dir(spec, options, config_dir),
        litellm_config=config_dir / Path(file).expanduser() if (file := spec.litellm.config_file) else None,
    )


def _own_first(upstreams: Mapping[Provider, Upstream], own: Provider | None) -> dict[Provider, Upstream]:
    """Put the agent's own upstream first: LiteLLM sends unknown models to the first."""
    return dict(sorted(upstreams.items(), key=lambda item: item[0] != own))


def _with_options(spec: GatewaySpec, options: GatewayOptions) -> GatewaySpec:
    changes: dict[str, object] = {}
    if options.type is not None:
        changes["type"] = options.type
    if options.budget_usd is not None:
        changes["budget_per_trial_usd"] = options.budget_usd
    if options.cassette is not None:
        changes["cassette"] = options.cassette
    return spec.model_copy(update=changes) if changes else spec


def _needed_for(spec: GatewaySpec) -> str | None:
    """Which configured feature requires a gateway, if any."""
    if spec.cassette is not None:
        return "a cassette"
    capped = any(cap is not None for caps in spec.caps.values() for cap in caps)
    return "a budget" if capped else None


def _cassette_dir(spec: GatewaySpec, options: GatewayOptions, config_dir: Path) -> Path | None:
    if spec.cassette is None:
        return None
    path = Path(spec.cassette.dir).expanduser()
    return (path if options.cassette is not None else config_dir / path).absolute()


def _impossible(message: str) -> YouBenchaError:
    return YouBenchaError("GATEWAY_IMPOSSIBLE", message, hint="See docs/gateway.md for the supported agents and keys.")


def _no_key(provider: Provider | None) -> YouBenchaError:
    providers: tuple[Provider, ...] = (provider,) if provider else get_args(Provider)
    names = " or ".join(key_names(provider)[0] for provider in providers)
    return YouBenchaError(
        "GATEWAY_KEY_MISSING",
        f"The gateway has no key{f' for {provider}' if provider else ''}",
        hint=f"Export {names}, or set `gateway.secrets_file` to a file of NAME=VALUE lines.",
    )


def check_replay(loaded: LoadedCase[TestCase], gateway: GatewayPlan | None, env: Mapping[str, str]) -> None:
    """Raise ConfigError if an evaluator would call a real model during a replay. `env` is the agent's."""
    if gateway is None or gateway.spec.cassette is None or gateway.spec.cassette.mode != "replay":
        return
    problems = []
    for each in loaded.evaluators:
        evaluator = get_evaluator(each.name)
        if agent := evaluator.bypasses_gateway(each.config, each.config_dir, loaded.case.agent, env):
            message = f"would call a real model during a replay: {agent} does not use the gateway here"
            hint = "choose an agent that supports the gateway (docs/gateway.md), or remove the evaluator"
            problems.append(each.problem(message, hint))
    if problems:
        raise loaded.document.error(problems)
