"""LiteLLM behind our gateway: a real process that we start and stop, or one that runs already.

executable = find_litellm(None, env, toolbox_path=None)
async with LiteLLM(executable, upstreams, env=env) as litellm:
    ...  # send requests to litellm.url, with litellm.master_key
"""
