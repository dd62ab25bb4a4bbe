"""A complete evaluation that needs no key: the real Claude Code CLI, a scripted model, a repository with a bug."""

from youbencha.demo.evaluation import Demo, prepare_demo, run_demo

__all__ = ["Demo", "prepare_demo", "run_demo"]
