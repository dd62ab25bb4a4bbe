"""Validate an agent's work: install, build, lint, and run the tests that count, some of which it has not seen."""

from __future__ import annotations

from youbencha.evaluators.validation.config import ValidationConfig
from youbencha.evaluators.validation.evaluator import Validation
from youbencha.evaluators.validation.scores import FinalScore, with_rubric

__all__ = ["FinalScore", "Validation", "ValidationConfig", "with_rubric"]
