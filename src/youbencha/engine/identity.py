"""Hashes that tell whether two trials are comparable. No value of a secret is in them: variables stay references.

The version of the harness is not part of them: a newer one may take over the trials of an older one.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import orjson

from youbencha.spec.agent_files import AgentFiles
from youbencha.spec.base import trial_identity
from youbencha.trial.plan import Plan


def agent_hash(plan: Plan, files: str | None, script: Path | None = None) -> str:
    """Hash everything that the agent's work depends on.

    `files` is the digest of the files that the agent gets, `script` its adapter script or the file with its prompt.
    """
    case = plan.case
    given = {"files": files} if files is not None else {}  # other hashes are as before there were such files
    return _hash(
        {
            **given,
            "agent": trial_identity(case.agent, exclude=AgentFiles.model_fields),
            "script": hashlib.sha256(script.read_bytes()).hexdigest() if script else None,
            "model": plan.model,
            "commit": case.commit,
            "timeout_ms": plan.timeout_ms,
            "sandbox": trial_identity(plan.sandbox),
            "gateway": trial_identity(case.gateway) if case.gateway else None,
        }
    )


def validation_hash(plan: Plan) -> str:
    """Hash everything else that the scores depend on: the evaluators, with commits in place of tags."""
    return _hash([[evaluator.name, dict(evaluator.config)] for evaluator in plan.evaluators])


def _hash(content: Any) -> str:
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)).hexdigest()
