"""Validate an agent's work: install, build, lint, and run the tests that count, some of which it has not seen."""

from __future__ import annotations

from youbencha.evaluators.validation.evaluator import FinalScore, Validation, with_rubric
from youbencha.evaluators.validation.task import ValidationConfig

__all__ = ["FinalScore", "Validation", "ValidationConfig", "with_rubric"]
