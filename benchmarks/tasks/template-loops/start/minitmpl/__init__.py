"""A small template language."""

from minitmpl.errors import TemplateError
from minitmpl.template import Template

__all__ = ["Template", "TemplateError"]
