"""What people write, read into models: every mistake is found at once, and named with its place."""

from youbencha.spec.loading import load_yaml_model, parse_yaml_model
from youbencha.spec.problems import ProblemAt, problems_of

__all__ = ["ProblemAt", "load_yaml_model", "parse_yaml_model", "problems_of"]
