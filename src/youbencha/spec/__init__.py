"""Read test cases and settings into models. All problems are reported at once, each with its position.

These are for packages that have models of their own.
"""

from youbencha.spec.base import StrictModel
from youbencha.spec.document import load_yaml_model, parse_yaml_model
from youbencha.spec.problems import ProblemAt, list_problems

__all__ = ["ProblemAt", "StrictModel", "list_problems", "load_yaml_model", "parse_yaml_model"]
