"""How a trial reaches its model: gateway, upstreams, budgets, prices, recording."""

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from youbencha.spec.base import INT_AS_FLOAT, Line, ShortForm, StrictModel, VariableName
from youbencha.spec.problems import ProblemAt

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False), INT_AS_FLOAT]
TokenCount = Annotated[int, Field(ge=0)]
GatewayType = Literal["auto", "builtin", "litellm", "none"]
Scope = Literal["call", "trial", "agent", "total"]
CassetteMode = Literal["record", "replay", "auto"]
CassetteTiming = Literal["instant", "recorded"]


class ModelPrice(StrictModel):
    """Dollars per million tokens. A call with tokens of an unknown price has an unknown price itself."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None


class UpstreamSpec(StrictModel):
    """The upstream of one provider. The key itself is never written here."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+")] | None = None
    key_env: VariableName | None = None
    """The variable with the key, in the environment or in `secrets_file`."""


class UpstreamSpecs(StrictModel):
    anthropic: UpstreamSpec = UpstreamSpec.model_construct()
    openai: UpstreamSpec = UpstreamSpec.model_construct()
    gemini: UpstreamSpec = UpstreamSpec.model_construct()


class CassetteSpec(StrictModel):
    """A directory with a recording."""

    dir: Line
    mode: CassetteMode = "auto"
    """`record`: send every request upstream and record the answer. `replay`: answer from the recording, send nothing
    upstream. `auto`: answer from the recording; send what is not in it upstream and record the answer."""
    timing: CassetteTiming = "instant"
    """`recorded`: a replayed answer takes as long as the recorded one."""


class LiteLLMSpec(StrictModel):
    """LiteLLM behind the gateway: started for the run, or already running."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+")] | None = None
    """Of a LiteLLM that is already running."""
    key_env: VariableName = "LITELLM_MASTER_KEY"
    """The variable with its key, if it is already running."""
    config_file: Line | None = None
    """A LiteLLM configuration, instead of a generated one."""
    executable: Line | None = None
    startup_timeout_s: Annotated[float, Field(gt=0), INT_AS_FLOAT] = 60.0


class GatewaySpec(StrictModel):
    """`gateway: builtin`, or in full `gateway: {type: builtin, budget_per_trial_usd: 2}`."""

    type: GatewayType = "auto"
    """`auto`: the built-in gateway if the agent's API and a key for it are known, else none."""
    upstreams: UpstreamSpecs = UpstreamSpecs.model_construct()
    """Defaults to the environment: ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, OPENAI_BASE_URL …"""
    secrets_file: Line | None = None
    """A file with lines of NAME=VALUE, which override the environment."""
    models: Annotated[tuple[Line, ...], Field(strict=False, exclude_if=lambda names: not names)] = ()
    """The models that the agent may use; `*` in a name matches any text. Empty: all of its provider."""
    budget_per_call_usd: Dollars | None = None
    budget_per_trial_usd: Dollars | None = None
    budget_per_agent_usd: Dollars | None = None
    budget_total_usd: Dollars | None = None
    """Including judges."""
    tokens_per_call: TokenCount | None = None
    tokens_per_trial: TokenCount | None = None
    tokens_per_agent: TokenCount | None = None
    tokens_total: TokenCount | None = None
    prices: dict[str, ModelPrice] = Field(default_factory=dict)
    """Prices by model name, before those of the price list. `*` in a name matches any text."""
    cassette: CassetteSpec | None = None
    litellm: LiteLLMSpec = LiteLLMSpec.model_construct()

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
