"""What people look at after a run: markdown, HTML, JUnit, JSON, a few lines on a terminal, a summary on GitHub.

Nothing is imported before it is used: `yb run` needs the markdown alone, and at once.
"""

from __future__ import annotations
