"""What a run needs only once its workspace is there, loaded while it waits for git and for its agent anyway."""

from __future__ import annotations

import asyncio
from importlib import import_module

_STEPS = (
    ("youbencha.log.model", ()),
    ("youbencha.log.results", ("SandboxReport", "TestCaseInfo", "Environment", "RunExecution", "AgentRun", "Summary")),
    ("youbencha.trial.run", ()),
    ("youbencha.log.results", ("Identity", "Hooks", "ArtifactManifest", "ResultsBundle")),
    ("youbencha.adapters.cli_agent.facts", ("SessionFacts",)),
    ("youbencha.log.model", ("Execution", "AgentInfo", "ModelInfo", "Message", "YouBenchaLog")),
    ("youbencha.log.results", ("Artifact", "EvaluationResult", "Outcome")),
    ("youbencha.report.markdown", ()),
)
"""In the order in which they are needed: modules, and their models. To build what checks one takes a millisecond."""


async def load_ahead() -> None:
    """In small steps: what has come meanwhile is looked at after each. What is not done in time is done when needed."""
    for name, models in _STEPS:
        module = import_module(name)
        await asyncio.sleep(0)
        for model in models:
            getattr(module, model).model_rebuild()
            await asyncio.sleep(0)
