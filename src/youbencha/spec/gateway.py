"""How a trial reaches its model: gateway, upstreams, budgets, prices, recording."""

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from youbencha.spec.base import INT_AS_FLOAT, RUN_WIDE, Line, ShortForm, StrictModel, VariableName, added
from youbencha.spec.problems import ProblemAt

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False), INT_AS_FLOAT]
TokenCount = Annotated[int, Field(ge=0)]
GatewayType = Literal["auto", "builtin", "litellm", "none"]
Scope = Literal["call", "trial", "agent", "total"]
CassetteMode = Literal["record", "replay", "auto"]
CassetteTiming = Literal["instant", "recorded"]


class ModelPrice(StrictModel):
    """Prices in dollars per million tokens."""

    input: Dollars
    """Input tokens that are not from a cache."""
    output: Dollars
    """Output tokens."""
    cache_read: Dollars | None = None
    """Input tokens read from the provider's cache. Without it, the cost of calls with such tokens is unknown."""
    cache_write: Dollars | None = None
    """Input tokens written to the provider's cache. Without it, the cost of calls with such tokens is unknown."""


class UpstreamSpec(StrictModel):
    """The server of one provider. Its key is never written here."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+")] | None = None
    """The server's address. Defaults to the environment, then to the provider's own."""
    key_env: VariableName | None = None
    """The name of the variable that holds the key, in the environment or in `secrets_file`."""


class UpstreamSpecs(StrictModel):
    """The servers of all providers."""

    anthropic: UpstreamSpec = UpstreamSpec.model_construct()
    """The upstream for Anthropic's API."""
    openai: UpstreamSpec = UpstreamSpec.model_construct()
    """The upstream for OpenAI's APIs."""
    gemini: UpstreamSpec = UpstreamSpec.model_construct()
    """The upstream for Gemini's API."""


class CassetteSpec(StrictModel):
    """A recording of a provider's answers."""

    dir: Line
    """The directory of the recording, relative to this file."""
    mode: CassetteMode = "auto"
    """`record`: send every request upstream and record the answer. `replay`: answer from the recording and send
    nothing upstream. `auto`: answer from the recording, and record answers to new requests."""
    timing: CassetteTiming = "instant"
    """`instant`: replayed answers arrive at once. `recorded`: they take as long as they did when recorded."""


class LiteLLMSpec(StrictModel):
    """LiteLLM behind the gateway: started for the run, or already running."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+")] | None = None
    """The address of a LiteLLM that is already running. Without it, LiteLLM is started for the run."""
    key_env: VariableName = "LITELLM_MASTER_KEY"
    """The name of the variable with the key of a LiteLLM that is already running."""
    config_file: Line | None = None
    """A LiteLLM configuration to use instead of the generated one."""
    executable: Line | None = None
    """The LiteLLM program. Defaults to the one in the toolbox."""
    startup_timeout_s: Annotated[float, Field(gt=0), INT_AS_FLOAT] = 60.0
    """How long LiteLLM may take to start, in seconds."""


class GatewaySpec(StrictModel):
    """`gateway: builtin`, or in full `gateway: {type: builtin, budget_per_trial_usd: 2}`."""

    type: GatewayType = "auto"
    """`builtin`: the built-in gateway. `litellm`: the same, with LiteLLM behind it. `none`: the agent connects
    directly. `auto`: the built-in gateway if the agent's API and a key for it are known, otherwise none."""
    upstreams: UpstreamSpecs = UpstreamSpecs.model_construct()
    """Servers that requests are sent to. Default to the environment: ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY,
    OPENAI_BASE_URL, …"""
    secrets_file: Annotated[Line | None, RUN_WIDE] = None
    """A file with lines of NAME=VALUE, which override the environment."""
    models: Annotated[tuple[Line, ...], Field(strict=False)] = added(())
    """The models that the agent may use; `*` matches any text. Empty: all models of its provider."""
    budget_per_call_usd: Dollars | None = None
    """Cost limit of one request, in dollars."""
    budget_per_trial_usd: Dollars | None = None
    """Cost limit of the agent in one trial, in dollars."""
    budget_per_agent_usd: Annotated[Dollars | None, RUN_WIDE] = None
    """Cost limit of one agent in all trials of a run, in dollars."""
    budget_total_usd: Annotated[Dollars | None, RUN_WIDE] = None
    """Cost limit of the whole run, including judges, in dollars."""
    tokens_per_call: TokenCount | None = None
    """Token limit of one request."""
    tokens_per_trial: TokenCount | None = None
    """Token limit of the agent in one trial."""
    tokens_per_agent: Annotated[TokenCount | None, RUN_WIDE] = None
    """Token limit of one agent in all trials of a run."""
    tokens_total: Annotated[TokenCount | None, RUN_WIDE] = None
    """Token limit of the whole run, including judges."""
    prices: dict[str, ModelPrice] = Field(default_factory=dict)
    """Your own prices by model name, which override the price list; `*` matches any text."""
    cassette: CassetteSpec | None = None
    """A recording of the provider's answers, to write or to replay."""
    litellm: LiteLLMSpec = LiteLLMSpec.model_construct()
    """Options of LiteLLM; only with `type: litellm`."""

    @property
    def caps(self) -> dict[Scope, tuple[float | None, int | None]]:
        """The limits of each scope, in dollars and in tokens."""
        return {
            "call": (self.budget_per_call_usd, self.tokens_per_call),
            "trial": (self.budget_per_trial_usd, self.tokens_per_trial),
            "agent": (self.budget_per_agent_usd, self.tokens_per_agent),
            "total": (self.budget_total_usd, self.tokens_total),
        }

    def merged_over(self, defaults: Self) -> Self:
        """What is set here, and for everything else `defaults`."""
        return defaults.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})

    @model_validator(mode="after")
    def _litellm_only_if_used(self) -> Self:
        if self.type != "litellm" and "litellm" in self.model_fields_set:
            raise ProblemAt("litellm", "is only valid with `type: litellm`")
        return self


Gateway = Annotated[GatewaySpec, ShortForm("type", {"enum": list(get_args(GatewayType))})]
