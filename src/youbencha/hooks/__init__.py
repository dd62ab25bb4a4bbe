"""What a person has run before the agent, and done with the results afterwards."""

from youbencha.hooks.context import PostHookPlaces, PreHookPlaces
from youbencha.hooks.run import run_post_evaluation, run_pre_execution
from youbencha.hooks.webhook import RetryPolicy

__all__ = ["PostHookPlaces", "PreHookPlaces", "RetryPolicy", "run_post_evaluation", "run_pre_execution"]
