"""What a run leaves behind, as data: the normalised log that is the same for every agent, and the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from youbencha.later import imported_when_asked
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

_OF_THE_LOG = frozenset({
    "AgentInfo", "ErrorRecord", "Execution", "Message", "ModelInfo", "Status", "ToolCall", "Usage", "YouBenchaLog",
    "iso_time",
})  # fmt: skip
_HOMES = {name: "model" if name in _OF_THE_LOG else "results" for name in __all__}
"""Who only counts tokens, as what drives an agent does, needs no models of pydantic."""

__getattr__ = imported_when_asked(__name__, _HOMES)
