"""LiteLLM behind the gateway: a process that the gateway starts and stops, or one that already runs.

executable = find_litellm(None, env, toolbox_path=None)
async with LiteLLM(executable, upstreams, env=env) as litellm:
    ...  # send requests to litellm.url, with litellm.master_key
"""
