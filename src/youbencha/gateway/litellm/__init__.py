"""LiteLLM behind our gateway: a real process that we start and stop, or one that runs already.

executable = find_litellm(None, os.environ, toolbox_path=None)
async with LiteLLM(executable, upstreams, env=os.environ) as litellm:
    ...  # ask litellm.url, with litellm.master_key
"""

from youbencha.gateway.litellm.answers import ErrorAnswer, provider_error, provider_headers
from youbencha.gateway.litellm.config import Backend, configuration
from youbencha.gateway.litellm.health import check_litellm
from youbencha.gateway.litellm.locate import find_litellm
from youbencha.gateway.litellm.process import LiteLLM

__all__ = [
    "Backend",
    "ErrorAnswer",
    "LiteLLM",
    "check_litellm",
    "configuration",
    "find_litellm",
    "provider_error",
    "provider_headers",
]
