"""A trial on this computer: no boundary, but a home of its own, so that no settings of the person's leak into it."""

from youbencha.sandbox.local.sandbox import LocalSandbox, open_local_sandbox
from youbencha.sandbox.local.tools import TOOL_VARIABLES

__all__ = ["TOOL_VARIABLES", "LocalSandbox", "open_local_sandbox"]
