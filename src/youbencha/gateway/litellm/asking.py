"""What a request must not tell LiteLLM: to ask another model than it names, or more often than once. Pure.

Our gateway reads the model and the limits in the body, and counts one answer. LiteLLM takes orders beside them (tried
with 1.106.2: `?model=` wins over the body, `fallbacks` ask a second model, `num_retries` asks again unseen).
"""

from __future__ import annotations

from collections.abc import Mapping

QUERY = frozenset({"alt", "beta"})
"""What agents send. The rest is for LiteLLM alone."""
_ORDERS = frozenset({
    "fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "num_retries", "max_retries", "retry_policy",
    "model_list", "user_config", "router_settings_override", "custom_llm_provider", "api_base", "base_url", "api_key",
    "api_version",
})  # fmt: skip
_FAMILIES = ("mock_", "litellm_")
_SEVERAL = ","
"""In a model's name: LiteLLM asks each of them."""


def order_in(body: object, model: str | None) -> str | None:
    """What in it cannot be metered, in words; None: nothing."""
    if not isinstance(body, Mapping):
        return "a body that is no JSON object"
    for key in body:
        if key in _ORDERS or str(key).startswith(_FAMILIES):
            return f"`{key}`"
    return "several models" if model and _SEVERAL in model else None
