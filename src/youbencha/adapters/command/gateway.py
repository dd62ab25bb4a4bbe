"""How a program that we do not know finds the gateway: by the variables that most look at."""

from __future__ import annotations

from youbencha.gateway.access import GatewayAccess


def usual_variables(access: GatewayAccess) -> dict[str, str]:
    return {
        "PROXY_URL": access.url,  # Thunderdome's adapters know this one
        "ANTHROPIC_BASE_URL": access.url,
        "ANTHROPIC_API_BASE": access.url,
        "ANTHROPIC_API_KEY": access.key,
        # Anthropic's clients add the version themselves, OpenAI's do not.
        "OPENAI_BASE_URL": f"{access.url}/v1",
        "OPENAI_API_BASE": f"{access.url}/v1",
        "OPENAI_API_KEY": access.key,
        "GOOGLE_GEMINI_BASE_URL": access.url,
        "GEMINI_API_KEY": access.key,
    }
