"""From what happened to a verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from youbencha.evaluators.command.config import CommandConfig
from youbencha.evaluators.limits import limit_results
from youbencha.evaluators.result import counted
from youbencha.log import AssertionResult
from youbencha.process import ProcessResult


def assertion_results(config: CommandConfig, metrics: Mapping[str, Any]) -> list[AssertionResult]:
    """The exit code and the report, always; then what was asked for."""
    results = [_exit_result(config, metrics)]
    if config.junit:
        wrong = metrics.get("junit_error", "")
        results.append(AssertionResult(name="junit", passed=not wrong, expected=list(config.junit), message=wrong))
    return [*results, *limit_results(config.assertions, metrics)]


def _exit_result(config: CommandConfig, metrics: Mapping[str, Any]) -> AssertionResult:
    expected = config.expect_exit_code
    passed = not metrics["timed_out"] and metrics["exit_code"] in expected
    return AssertionResult(
        name="exit_code",
        passed=passed,
        expected=expected[0] if len(expected) == 1 else list(expected),
        actual=metrics["exit_code"],
        message="" if passed else _wrong_end(config, metrics),
    )


def _wrong_end(config: CommandConfig, metrics: Mapping[str, Any]) -> str:
    if metrics["timed_out"]:
        return f"it was ended after {config.timeout / 1000:g} s"
    if metrics["signal"]:
        return f"{metrics['signal']} ended it"
    if metrics["exit_code"] is None:
        return "nobody knows how it ended"
    expected = " or ".join(map(str, config.expect_exit_code))
    return f"its exit code is {metrics['exit_code']}, not {expected}"


def process_metrics(result: ProcessResult, output_tail: str) -> dict[str, Any]:
    return {
        "exit_code": result.exit.code,
        "signal": result.exit.signal,
        "timed_out": result.timed_out,
        "duration_ms": round(result.duration_s * 1000),
        "output_tail": output_tail,
        "output_truncated": result.truncated,
    }


def summary(metrics: Mapping[str, Any]) -> str:
    """What there is to say besides failures: how long it took, and how many tests there were."""
    parts = [f"took {metrics['duration_ms'] / 1000:.1f} s"]
    if "tests" in metrics:
        bad = metrics["failures"] + metrics["errors"]
        parts.append(f"{counted(metrics['tests'], 'test')}, {bad:,} failed, {metrics['skipped']:,} skipped")
    return "; ".join(parts)
