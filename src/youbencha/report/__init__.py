"""What people look at after a run: markdown, HTML, JUnit, JSON, a few lines on a terminal, a summary on GitHub.

Nothing is imported before it is used: `yb run` needs the markdown alone, and at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from youbencha.later import imported_when_asked

if TYPE_CHECKING:
    from youbencha.report.attachments import Attachments, read_attachments
    from youbencha.report.github import github_annotations, render_step_summary, write_step_summary
    from youbencha.report.html.page import render_html
    from youbencha.report.junit import render_junit
    from youbencha.report.loading import find_results, load_results
    from youbencha.report.markdown import render_markdown
    from youbencha.report.plain_json import render_json
    from youbencha.report.terminal import render_terminal, terminal_text
    from youbencha.report.writing import ReportFormat, render_report, write_report, write_text

_HOMES = {
    "Attachments": "attachments",
    "ReportFormat": "writing",
    "find_results": "loading",
    "github_annotations": "github",
    "load_results": "loading",
    "read_attachments": "attachments",
    "render_html": "html.page",
    "render_json": "plain_json",
    "render_junit": "junit",
    "render_markdown": "markdown",
    "render_report": "writing",
    "render_step_summary": "github",
    "render_terminal": "terminal",
    "terminal_text": "terminal",
    "write_report": "writing",
    "write_step_summary": "github",
    "write_text": "writing",
}

__all__ = [
    "Attachments",
    "ReportFormat",
    "find_results",
    "github_annotations",
    "load_results",
    "read_attachments",
    "render_html",
    "render_json",
    "render_junit",
    "render_markdown",
    "render_report",
    "render_step_summary",
    "render_terminal",
    "terminal_text",
    "write_report",
    "write_step_summary",
    "write_text",
]

__getattr__ = imported_when_asked(__name__, _HOMES)
