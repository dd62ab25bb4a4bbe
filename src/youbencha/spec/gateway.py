"""How a trial reaches its model: through which gateway, with how much money, recorded or replayed."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from youbencha.spec.base import Line, Written
from youbencha.spec.problems import ProblemAt


def _number(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(_number)]
TokenCount = Annotated[int, Field(ge=0)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
GatewayType = Literal["auto", "builtin", "litellm", "none"]
Scope = Literal["call", "trial", "agent", "total"]
CassetteMode = Literal["record", "replay", "auto"]
CassetteTiming = Literal["instant", "recorded"]


class ModelPrice(Written):
    """Dollars for a million tokens. What is not said is unknown, and so is then the price of a call that has such."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None


class UpstreamSpec(Written):
    """Where one provider's API is really served. The key itself is never written here."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+")] | None = None
    key_env: VariableName | None = None
    """The variable that holds the key: of the environment, or of `secrets_file`."""


class UpstreamSpecs(Written):
    anthropic: UpstreamSpec = UpstreamSpec.model_construct()
    openai: UpstreamSpec = UpstreamSpec.model_construct()
    gemini: UpstreamSpec = UpstreamSpec.model_construct()


class CassetteSpec(Written):
    """A directory of recorded answers."""

    dir: Line
    mode: CassetteMode = "auto"
    """`record`: ask the model, and keep its answers. `replay`: answer from what was kept, and ask nobody. `auto`:
    answer from what was kept, and ask and keep the rest."""
    timing: CassetteTiming = "instant"
    """Whether a replayed answer takes the time that it took."""


class LiteLLMSpec(Written):
    """LiteLLM behind our gateway: one that we start, or one that runs already."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+")] | None = None
    """Of one that runs already."""
    key_env: VariableName = "LITELLM_MASTER_KEY"
    """The variable that holds its key, for one that runs already."""
    config_file: Line | None = None
    """LiteLLM's own configuration, instead of the one that we write."""
    executable: Line | None = None
    startup_timeout_s: Annotated[float, Field(gt=0), BeforeValidator(_number)] = 60.0


class GatewaySpec(Written):
    """`gateway: builtin`, or with more to say `gateway: {type: builtin, budget_per_trial_usd: 2}`."""

    type: GatewayType = "auto"
    """`auto`: the built-in one, wherever this agent's API and a key for it are known; otherwise none."""
    upstreams: UpstreamSpecs = UpstreamSpecs.model_construct()
    """By default, what the environment says: ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, OPENAI_BASE_URL …"""
    secrets_file: Line | None = None
    """Lines of NAME=VALUE; they win over the environment."""
    budget_per_call_usd: Dollars | None = None
    budget_per_trial_usd: Dollars | None = None
    budget_per_agent_usd: Dollars | None = None
    budget_total_usd: Dollars | None = None
    """Judges included."""
    tokens_per_call: TokenCount | None = None
    tokens_per_trial: TokenCount | None = None
    tokens_per_agent: TokenCount | None = None
    tokens_total: TokenCount | None = None
    prices: dict[str, ModelPrice] = Field(default_factory=dict)
    """Of models that the price list does not know, or knows otherwise. By name; `*` stands for any text in it."""
    cassette: CassetteSpec | None = None
    litellm: LiteLLMSpec = LiteLLMSpec.model_construct()

    @property
    def caps(self) -> dict[Scope, tuple[float | None, int | None]]:
        """Dollars and tokens that each may take."""
        return {
            "call": (self.budget_per_call_usd, self.tokens_per_call),
            "trial": (self.budget_per_trial_usd, self.tokens_per_trial),
            "agent": (self.budget_per_agent_usd, self.tokens_per_agent),
            "total": (self.budget_total_usd, self.tokens_total),
        }

    def over(self, weaker: Self) -> Self:
        """What is written here, and from `weaker` what is not."""
        return weaker.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})

    @model_validator(mode="after")
    def _litellm_only_if_used(self) -> Self:
        if self.type != "litellm" and "litellm" in self.model_fields_set:
            raise ProblemAt("litellm", "is only looked at with `type: litellm`")
        return self


def _typed(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


class _OrType:
    """Tells editors, too, that the type alone will do."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "enum": ["auto", "builtin", "litellm", "none"]}, handler(schema)]}


Gateway = Annotated[GatewaySpec, BeforeValidator(_typed), _OrType()]
