"""`make bench` keeps every figure that it has measured, whatever happens to the next one."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator

import pytest
from bench import __main__ as runner
from bench import gateway, sandbox
from bench.measure import ComponentMissing, Figure

from systems import ON_WINDOWS

MET = Figure("start-up", "1.5 ms", "bare 1.0 ms", "≤ 2 ms", True)
MISSED = Figure("memory", "90 MB", "idle 10 MB", "≤ 60 MB", False)

Parts = dict[str, Callable[[], Iterator[Figure]]]
on_posix = pytest.mark.skipif(ON_WINDOWS, reason="the measurements themselves do not run on Windows")


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> Parts:
    """The parts that the runner knows, in place of the real ones."""
    parts: Parts = {"good": lambda: iter([MET])}
    monkeypatch.setattr(runner, "BENCHES", parts)
    return parts


def rows(out: str) -> list[list[str]]:
    """The cells of each line, without the header and the summary."""
    lines = out.split("\n\n")[0].splitlines()[1:]
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


def row(figure: Figure, verdict: str) -> list[str]:
    return [figure.what, figure.measured, figure.yardstick, figure.goal, verdict]


def test_all_goals_met(benches, capsys):
    benches["second"] = lambda: iter([MET])
    assert runner.main([]) == 0
    printed = capsys.readouterr()
    assert rows(printed.out) == [["good"], row(MET, "met"), ["second"], row(MET, "met")]
    assert printed.out.endswith("\n\n2 met\n")
    assert printed.err == ""


def test_only_the_named_parts_are_measured(benches, capsys):
    benches["other"] = lambda: iter([MISSED])
    assert runner.main(["good"]) == 0
    assert "other" not in capsys.readouterr().out


def test_a_missed_goal_fails_and_the_rest_is_measured(benches, capsys):
    benches["good"], benches["after"] = lambda: iter([MISSED]), benches["good"]
    assert runner.main([]) == 1
    assert rows(capsys.readouterr().out) == [["good"], row(MISSED, "missed"), ["after"], row(MET, "met")]


def test_a_figure_without_a_goal_is_neither_met_nor_missed(benches, capsys):
    figure = Figure("rate", "900/s", "direct 1000/s", "–", None)
    benches["good"] = lambda: iter([figure])
    assert runner.main([]) == 0
    assert rows(capsys.readouterr().out) == [["good"], row(figure, "no goal")]


def test_a_missing_component_is_reported_and_is_not_a_failure(benches, capsys):
    def needs_engine() -> Iterator[Figure]:
        yield MET
        raise ComponentMissing("trials in Docker (no engine): start one by `eval [it]`")

    benches["good"], benches["after"] = needs_engine, benches["good"]
    assert runner.main([]) == 0
    printed = capsys.readouterr()
    missing = ["not measured: trials in Docker (no engine): start one by `eval [it]`"]
    assert rows(printed.out) == [["good"], row(MET, "met"), missing, ["after"], row(MET, "met")]
    assert printed.out.endswith("\n\n2 met, 1 not measured\n")
    assert printed.err == ""


def test_a_part_that_raises_keeps_its_figures_and_the_other_parts(benches, capsys):
    def breaks() -> Iterator[Figure]:
        yield MET
        raise ValueError("the first line\nthe second line")

    benches["good"], benches["after"] = breaks, benches["good"]
    assert runner.main([]) == 1
    printed = capsys.readouterr()
    failed = ["failed: ValueError: the first line"]
    assert rows(printed.out) == [["good"], row(MET, "met"), failed, ["after"], row(MET, "met")]
    assert printed.out.endswith("\n\n2 met, 1 failed\n")
    assert printed.err.startswith("good failed:\nTraceback")
    assert "in breaks" in printed.err
    assert "the second line" in printed.err


def test_a_part_that_raises_before_its_first_figure(benches, capsys):
    def breaks() -> Iterator[Figure]:
        raise AssertionError

    benches["good"] = breaks
    assert runner.main([]) == 1
    assert rows(capsys.readouterr().out) == [["good"], ["failed: AssertionError"]]


def test_a_figure_is_printed_before_the_next_is_measured(benches, capsys):
    printed = []

    def watches() -> Iterator[Figure]:
        printed.append(capsys.readouterr().out)
        yield MET
        printed.append(capsys.readouterr().out)

    benches["good"] = watches
    runner.main([])
    assert rows(printed[0]) == [["good"]]
    assert rows("\n" + printed[1]) == [row(MET, "met")]


def test_ctrl_c_keeps_what_was_measured(benches, capsys):
    def interrupted() -> Iterator[Figure]:
        yield MET
        signal.raise_signal(signal.SIGINT)
        yield MISSED

    benches["good"], benches["after"] = interrupted, benches["good"]
    assert runner.main([]) == 130
    printed = capsys.readouterr()
    assert rows(printed.out) == [["good"], row(MET, "met"), ["interrupted"]]
    assert printed.out.endswith("\n\n1 met\n")


def test_an_unknown_name(benches, capsys):
    assert runner.main(["good", "godo"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "unknown: godo; there are: good\n"


# -- the real parts, without a component ---------------------------------------------------------------------------


@on_posix
@pytest.mark.parametrize(
    ("docker", "reason"),
    [
        (None, "there is no docker command"),
        ("echo 'Cannot connect to the Docker daemon.' >&2; exit 1", "Cannot connect to the Docker daemon."),
    ],
)
def test_the_local_sandbox_is_measured_without_a_container_engine(docker, reason, tmp_path, monkeypatch):
    if docker:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n{docker}\n")
        (tmp_path / "docker").chmod(0o755)
    monkeypatch.setattr(sandbox, "_LOCAL_ROUNDS", 1)
    figures = sandbox.measure()
    assert next(figures).what == "a process in the local sandbox"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ComponentMissing) as missing:
        next(figures)
    assert str(missing.value) == f'null trial in Docker ({reason}): run `eval "$(scripts/docker-engine start)"`'


@on_posix
def test_the_gateway_is_measured_without_litellm(tmp_path, monkeypatch):
    monkeypatch.setenv("YOUBENCHA_TOOLBOX", str(tmp_path))
    monkeypatch.setattr(gateway, "_IN_A_ROUND", {"gateway": 2, "litellm": 2})
    for name in ("_ROUNDS", "_WARM_UP", "_LOAD_ROUNDS", "_OPEN_STREAMS"):
        monkeypatch.setattr(gateway, name, 1)
    for name in ("_WARM_UP_S", "_LOAD_S"):
        monkeypatch.setattr(gateway, name, 0.01)
    figures = gateway.measure()
    assert [next(figures).what for _ in range(6)] == [
        "added to a JSON answer",
        "added to a stream",
        "added to the first event of a stream that goes on later",
        "JSON answers for 8 clients at once",
        "streams for 8 clients at once",
        "memory with 1 open streams",
    ]
    with pytest.raises(ComponentMissing, match="LiteLLM"):
        next(figures)
