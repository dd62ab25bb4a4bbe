"""What people write, read into models: every mistake is found at once, and named with its place."""

from youbencha.spec.base import Written
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
from youbencha.spec.loader import Loaded, NamedEvaluator, Parts, is_eval_config, load_eval_config, load_test_case
from youbencha.spec.problems import ProblemAt, problems_of
from youbencha.spec.sandbox import SandboxSpec
from youbencha.spec.settings import Settings
from youbencha.spec.testcase import (
    AgentChoice,
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
    "AgentChoice",
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
    "ModelPrice",
    "NamedEvaluator",
    "Parts",
    "PostHook",
    "ProblemAt",
    "SandboxSpec",
    "ScriptConfig",
    "ScriptHook",
    "Settings",
    "TestCase",
    "UpstreamSpec",
    "UpstreamSpecs",
    "WebhookConfig",
    "WebhookHook",
    "Written",
    "is_eval_config",
    "load_eval_config",
    "load_test_case",
    "load_yaml_model",
    "parse_yaml_model",
    "problems_of",
]
