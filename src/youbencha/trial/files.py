"""What a run leaves in its artifacts directory, written whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from youbencha.events import EventSink, Noted, PhaseStarted
from youbencha.files import write_atomically
from youbencha.log import ResultsBundle, YouBenchaLog, as_json
from youbencha.process import Redactor
from youbencha.spec import PostHook
from youbencha.trial.bundle import LOG_FILE, REPORT_FILE, RESULTS_FILE, Record, bundle_of
from youbencha.trial.redaction import without_secrets
from youbencha.trial.sidecar import SIDECAR, sidecar_of


class ResultFiles:
    """Keeps `results.json` and what stands beside it. No secret of the environment gets into any of it."""

    def __init__(self, artifacts: Path, record: Record, redactor: Redactor) -> None:
        self._artifacts = artifacts
        self._record = record
        self._redactor = redactor

    @property
    def results(self) -> Path:
        return self._artifacts / RESULTS_FILE

    def save_log(self, log: YouBenchaLog) -> None:
        self._record.log = without_secrets(log, self._redactor)
        self._save(LOG_FILE, as_json(self._record.log))

    def save_metrics(self) -> None:
        """Once the agent has ended, however it did."""
        self._save(SIDECAR, self._redactor.text(sidecar_of(self._record)))

    def save_results(self, *, complete: bool, interrupted: bool = False) -> ResultsBundle:
        bundle = bundle_of(self._record, now=time.time(), complete=complete, interrupted=interrupted)
        bundle = without_secrets(bundle, self._redactor)  # for hooks and standard output too, not only for the file
        self._save(RESULTS_FILE, as_json(bundle))
        return bundle

    async def conclude(
        self, hooks: Sequence[PostHook], *, judged: Path, config_dir: Path, on_event: EventSink
    ) -> ResultsBundle:
        """The final results, what the post-evaluation hooks made of them, and the report."""
        self._record.files.add(REPORT_FILE)
        bundle = self.save_results(complete=True)
        self._save_report(bundle)  # before the hooks, which may want to send it
        if hooks:
            from youbencha.hooks import PostHookPlaces, run_post_evaluation

            on_event(PhaseStarted(phase="post_evaluation"))
            started = time.monotonic()
            self._record.post_evaluation = await run_post_evaluation(
                hooks,
                bundle,
                PostHookPlaces(
                    workspace_dir=judged,
                    artifacts_dir=self._artifacts,
                    config_dir=config_dir,
                    results_path=self.results,
                ),
                env=os.environ,
                on_note=lambda text: on_event(Noted(text=text)),
            )
            self._record.phases_ms["post_evaluation"] = round((time.monotonic() - started) * 1000)
            bundle = self.save_results(complete=True)
            self._save_report(bundle)
        return bundle

    def _save_report(self, bundle: ResultsBundle) -> None:
        from youbencha.report import render_markdown

        self._save(REPORT_FILE, render_markdown(bundle))

    def _save(self, name: str, text: str) -> None:
        write_atomically(self._artifacts / name, text.encode("utf-8", "replace"))
        self._record.files.add(name)
