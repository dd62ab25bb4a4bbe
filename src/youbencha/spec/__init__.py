"""Read test cases and settings into models. All problems are reported at once, each with its position."""

from youbencha.spec.base import StrictModel
from youbencha.spec.document import load_yaml_model, parse_yaml_model
from youbencha.spec.gateway import (
    CassetteMode,
    CassetteSpec,
    GatewaySpec,
    GatewayType,
    ModelPrice,
    UpstreamSpec,
    UpstreamSpecs,
)
from youbencha.spec.loader import (
    Loaded,
    LocatedEvaluator,
    NamedEvaluator,
    UncheckedParts,
    check_test_case,
    is_eval_config,
    load_eval_config,
    load_test_case,
)
from youbencha.spec.problems import ProblemAt, problems_of
from youbencha.spec.sandbox import SandboxSpec
from youbencha.spec.settings import Settings
from youbencha.spec.testcase import (
    AgentOverride,
    AgentSpec,
    DatabaseConfig,
    DatabaseHook,
    EvalConfig,
    EvaluatorEntry,
    EvaluatorFile,
    PostHook,
    ScriptConfig,
    ScriptHook,
    TestCase,
    WebhookConfig,
    WebhookHook,
)

__all__ = [
    "AgentOverride",
    "AgentSpec",
    "CassetteMode",
    "CassetteSpec",
    "DatabaseConfig",
    "DatabaseHook",
    "EvalConfig",
    "EvaluatorEntry",
    "EvaluatorFile",
    "GatewaySpec",
    "GatewayType",
    "Loaded",
    "LocatedEvaluator",
    "ModelPrice",
    "NamedEvaluator",
    "PostHook",
    "ProblemAt",
    "SandboxSpec",
    "ScriptConfig",
    "ScriptHook",
    "Settings",
    "StrictModel",
    "TestCase",
    "UncheckedParts",
    "UpstreamSpec",
    "UpstreamSpecs",
    "WebhookConfig",
    "WebhookHook",
    "check_test_case",
    "is_eval_config",
    "load_eval_config",
    "load_test_case",
    "load_yaml_model",
    "parse_yaml_model",
    "problems_of",
]
