"""Run the user's hooks: scripts before the agent; scripts, webhooks and databases after the evaluation."""

from youbencha.hooks.context import HookContext, post_evaluation_variables, pre_execution_variables
from youbencha.hooks.run import run_post_evaluation, run_pre_execution
from youbencha.hooks.webhook import RetryPolicy

__all__ = [
    "HookContext",
    "RetryPolicy",
    "post_evaluation_variables",
    "pre_execution_variables",
    "run_post_evaluation",
    "run_pre_execution",
]
