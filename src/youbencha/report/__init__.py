"""Reports about a run: Markdown, HTML, JUnit, JSON, a summary for the terminal and one for GitHub.

Nothing is imported before it is used: `yb run` needs only Markdown, and must start fast.
"""

from __future__ import annotations
