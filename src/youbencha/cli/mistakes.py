"""What to do about the mistakes that everybody makes once with a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from youbencha.errors import ConfigError


@contextmanager
def advising(config: Path) -> Iterator[None]:
    """A complaint about a file that is not there, or is for another command, says what to do next."""
    try:
        yield
    except ConfigError as error:
        error.hint = error.hint or _advice(config, error)
        raise


def _advice(config: Path, error: ConfigError) -> str | None:
    if not config.exists():
        return "`yb init` writes a test case to begin with."
    unknown = {problem.path for problem in error.problems if problem.message.startswith("unknown key")}
    if error.code == "EVAL_CONFIG_INVALID" and unknown & {"repo", "agent"}:
        return f"This is a test case, with an agent to run: `yb run -c {config}`."
    if error.code == "TEST_CASE_INVALID" and "directory" in unknown:
        return f"To judge a directory as it is, without an agent: `yb eval -c {config}`."
    return None
