"""What people write, read into models: every mistake is found at once, and named with its place."""

from youbencha.spec.base import Written
from youbencha.spec.cases import Loaded, NamedEvaluator, Parts, is_eval_config, load_eval_config, load_test_case
from youbencha.spec.evaluators import EvaluatorEntry, EvaluatorFile
from youbencha.spec.hooks import (
    DatabaseConfig,
    DatabaseHook,
    PostHook,
    ScriptConfig,
    ScriptHook,
    WebhookConfig,
    WebhookHook,
)
from youbencha.spec.loading import load_yaml_model, parse_yaml_model
from youbencha.spec.problems import ProblemAt, problems_of
from youbencha.spec.settings import Settings
from youbencha.spec.testcase import AgentSpec, EvalConfig, TestCase

__all__ = [
    "AgentSpec",
    "DatabaseConfig",
    "DatabaseHook",
    "EvalConfig",
    "EvaluatorEntry",
    "EvaluatorFile",
    "Loaded",
    "NamedEvaluator",
    "Parts",
    "PostHook",
    "ProblemAt",
    "ScriptConfig",
    "ScriptHook",
    "Settings",
    "TestCase",
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
