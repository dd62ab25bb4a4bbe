"""LiteLLM behind our gateway: a real process that we start and stop, or one that runs already.

executable = find_litellm(None, os.environ, toolbox_path=None)
async with LiteLLM(executable, upstreams, env=os.environ) as litellm:
    ...  # ask litellm.url, with litellm.master_key
"""

from __future__ import annotations
