"""What a run leaves behind, as data: the normalised log that is the same for every agent, and the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from youbencha.log.as_json import as_json

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

_HOMES = dict.fromkeys(
    (
        "AgentInfo",
        "ErrorRecord",
        "Execution",
        "Message",
        "ModelInfo",
        "Status",
        "ToolCall",
        "Usage",
        "YouBenchaLog",
        "iso_time",
    ),
    "model",
)


def __getattr__(name: str) -> Any:
    """Imported when asked for: who only counts tokens, as what drives an agent does, needs no models of pydantic."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'results')}"), name)
    return found
