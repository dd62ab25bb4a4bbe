"""The settings files: are they right, and where do they send what a run leaves?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from youbencha.doctor.finding import Finding
from youbencha.errors import ConfigError
from youbencha.spec import Settings
from youbencha.spec.settings import LoadedSettings, load_settings


@dataclass(frozen=True, slots=True)
class CheckedSettings:
    finding: Finding
    settings: LoadedSettings
    """The defaults, where the files cannot be used."""


def check_settings(directory: Path, home: Path) -> CheckedSettings:
    try:
        loaded = load_settings(directory, home)
    except ConfigError as error:
        told = "; ".join(str(problem) for problem in error.problems)
        finding = Finding(
            group="storage", name="settings", state="failed", detail=told, fix="Mend it, or `yb config unset` the key."
        )
        return CheckedSettings(finding, LoadedSettings(Settings(), directory, home))
    files = ", ".join(str(file) for file in loaded.files) or "none, so the defaults hold"
    if loaded.warnings:
        told = "; ".join(loaded.warnings)
        return CheckedSettings(Finding(group="storage", name="settings", state="note", detail=told), loaded)
    return CheckedSettings(Finding(group="storage", name="settings", state="ok", detail=files), loaded)
