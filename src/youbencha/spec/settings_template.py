"""What `yb config init` writes: every setting with its default, none of them set.

Commented out, because a value that stands in a project's file would hide the same one in a person's.
"""

from __future__ import annotations

import json

from youbencha.spec.settings import Settings


def template() -> str:
    return _TEMPLATE


def json_template() -> str:
    """JSON has no comments: there, the defaults are set."""
    defaults = Settings()
    shown = defaults.model_dump(exclude_none=True, exclude={"gateway", "sandbox"})
    kinds = {"gateway": {"type": defaults.gateway.type}, "sandbox": {"type": defaults.sandbox.type}}
    return json.dumps({**shown, **kinds}, indent=2) + "\n"


_TEMPLATE = """\
# Settings of youBencha. Remove the `# ` before a key to set it, or use `yb config set KEY VALUE`.
# A project's settings go before those in your home directory; a test case's own go before both.
# Relative paths start at this file.

# Where runs take place and leave their results.
# workspace_dir: .youbencha-workspace

# Where `yb eval` leaves its results.
# output_dir: .youbencha-eval

# Where mirrors of repositories are kept; without it, in the system's place for caches.
# cache_dir: ~/.cache/youbencha

# How long an agent may work, in milliseconds.
# timeout_ms: 300000

# debug, info, warn or error.
# log_level: info

# false: the checkouts of a run are removed at its end; its results stay.
# keep_workspace: true

# What ${NAME} stands for in a test case. Keep secrets in the environment instead.
# variables:
#   TEAM: platform

# For every agent, unless a test case says otherwise.
# agent:
#   timeout_ms: 300000
#   model: sonnet

# How many evaluators may work at once.
# evaluators:
#   max_concurrent: 4

# How agents reach their models: auto, builtin, litellm or none. What a trial may spend, prices of your own models,
# where the keys are kept and more: docs/gateway.md.
# gateway:
#   type: auto

# Where agents run: local or docker. Which image, with how much memory and more: docs/sandboxes.md.
# sandbox:
#   type: local
"""
