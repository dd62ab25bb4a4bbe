"""Render a report in one of its formats, and write it to a file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from youbencha.errors import YouBenchaError
from youbencha.files import replace_atomically
from youbencha.log.model import as_json
from youbencha.report.html import read_attachments, render_html
from youbencha.report.junit import render_junit
from youbencha.report.markdown import render_markdown
from youbencha.report.run_document import run_document
from youbencha.report.sharing import make_shareable
from youbencha.store.bundle import ResultsBundle
from youbencha.store.layout import REPORT_FILE
from youbencha.workspace.run_dir import ARTIFACTS


class ReportFormat(StrEnum):
    MARKDOWN = "markdown"
    MD = "md"
    JSON = "json"
    HTML = "html"
    JUNIT = "junit"

    @property
    def file_name(self) -> str:
        """The name of the report next to its results."""
        return _FILE_NAMES[self]


_FILE_NAMES = {
    ReportFormat.MARKDOWN: REPORT_FILE,
    ReportFormat.MD: REPORT_FILE,
    ReportFormat.JSON: "report.json",
    ReportFormat.HTML: "report.html",
    ReportFormat.JUNIT: "report.xml",
}


def render_report(bundle: ResultsBundle, form: ReportFormat, results_file: Path, directory: Path | None = None) -> str:
    """Render a run's results. Links are relative to `directory`, by default that of the results."""
    if form is ReportFormat.JSON:
        return render_json(bundle)
    shown = make_shareable(bundle, results_file.parent)
    match form:
        case ReportFormat.HTML:
            artifacts = results_file.parent
            artifacts_dir = (
                os.curdir if directory is None else os.path.relpath(artifacts.resolve(), directory.resolve())
            )
            return render_html(shown, read_attachments(artifacts, bundle), artifacts_dir=artifacts_dir)
        case ReportFormat.JUNIT:
            return render_junit(shown)
        case _:
            return render_markdown(run_document(shown))


def write_report(bundle: ResultsBundle, form: ReportFormat, results_file: Path, output: Path | None = None) -> Path:
    """Write the report next to the results, or to `output`. Returns its path."""
    target = results_file.parent if output is None else output
    target = target / form.file_name if target.is_dir() else target
    if target.exists() and results_file.exists() and target.samefile(results_file):
        raise YouBenchaError(
            "REPORT_NOT_WRITTEN",
            f"{target} contains the results that the report describes.",
            hint="Choose another file with --output.",
        )
    text = render_report(bundle, form, results_file, target.parent)
    if output is None:
        write_next_to_results(target, text)
    else:
        write_text(target, text)
    return target


def write_next_to_results(target: Path, text: str) -> None:
    """Write a report into a directory of results without following links, because others may have placed some there."""
    with _report_write_errors(target):
        if target.parent.name == ARTIFACTS and target.parent.is_symlink():
            raise OSError(errno.ELOOP, "its directory is a link")
        replace_atomically(target, text.encode("utf-8", "replace"))


def write_text(target: Path, text: str) -> None:
    """Write a file that the user named, following links; a pipe or a device is written to directly."""
    content = text.encode("utf-8", "replace")
    with _report_write_errors(target):
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a pipe, a device: it must not be replaced by a file
        else:
            replace_atomically(target.resolve(), content)


@contextmanager
def _report_write_errors(target: Path) -> Iterator[None]:
    """Turn an operating system's error into one for the user."""
    try:
        yield
    except OSError as error:
        raise YouBenchaError(
            "REPORT_NOT_WRITTEN",
            f"Cannot write {target}: {error.strerror}.",
            hint="Choose another file with --output, or check the directory's permissions and free disk space.",
        ) from error


def render_json(bundle: ResultsBundle) -> str:
    return as_json(bundle) + "\n"
