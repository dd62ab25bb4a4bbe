"""Models of a run's files: the normalised log, which is the same for every agent, and the results."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from youbencha.log.model import (
        AgentInfo,
        ErrorRecord,
        Execution,
        Message,
        ModelInfo,
        Status,
        ToolCall,
        Usage,
        YouBenchaLog,
        as_json,
        iso_time,
    )
    from youbencha.log.results import (
        AgentRun,
        Artifact,
        ArtifactManifest,
        AssertionResult,
        BudgetReport,
        CassetteReport,
        Environment,
        EvaluationError,
        EvaluationResult,
        EvaluationStatus,
        GatewayReport,
        HookResult,
        Hooks,
        Identity,
        ModelUse,
        Outcome,
        OutcomeName,
        OverallStatus,
        ResultsBundle,
        RunExecution,
        SandboxReport,
        Summary,
        TestCaseInfo,
        UsageDifference,
    )

__all__ = [
    "AgentInfo",
    "AgentRun",
    "Artifact",
    "ArtifactManifest",
    "AssertionResult",
    "BudgetReport",
    "CassetteReport",
    "Environment",
    "ErrorRecord",
    "EvaluationError",
    "EvaluationResult",
    "EvaluationStatus",
    "Execution",
    "GatewayReport",
    "HookResult",
    "Hooks",
    "Identity",
    "Message",
    "ModelInfo",
    "ModelUse",
    "Outcome",
    "OutcomeName",
    "OverallStatus",
    "ResultsBundle",
    "RunExecution",
    "SandboxReport",
    "Status",
    "Summary",
    "TestCaseInfo",
    "ToolCall",
    "Usage",
    "UsageDifference",
    "YouBenchaLog",
    "as_json",
    "iso_time",
]


def __getattr__(name: str) -> Any:
    """Load the models when one is asked for: the control program needs `log.session`, and must start quickly."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    model = import_module("youbencha.log.model")
    return getattr(model if hasattr(model, name) else import_module("youbencha.log.results"), name)
