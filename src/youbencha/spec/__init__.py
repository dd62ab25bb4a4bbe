"""What people write, read into models: every mistake is found at once, and named with its place."""

from youbencha.spec.base import Written
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
    "PostHook",
    "ProblemAt",
    "ScriptConfig",
    "ScriptHook",
    "Settings",
    "TestCase",
    "WebhookConfig",
    "WebhookHook",
    "Written",
    "load_yaml_model",
    "parse_yaml_model",
    "problems_of",
]
