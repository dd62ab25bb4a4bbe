"""What a person has run before the agent, and done with the results afterwards."""

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
