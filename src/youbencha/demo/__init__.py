"""A complete evaluation that needs no key: the real Claude Code CLI, a scripted model, a repository with a bug."""

from youbencha.demo.evaluation import DemoOutcome, run_demo

__all__ = ["DemoOutcome", "run_demo"]
