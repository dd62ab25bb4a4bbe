"""JUnit XML that CI systems accept: the rules that their schemas have in common."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
import sample

from youbencha.report.junit import render_junit
from youbencha.store.bundle import ResultsBundle

SUITE = {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}


def suite_of(bundle: ResultsBundle) -> ElementTree.Element:
    root = ElementTree.fromstring(render_junit(bundle).encode("utf-8"))
    assert root.tag == "testsuites"
    suite = root.find("testsuite")
    assert suite is not None
    return suite


def results(bundle: ResultsBundle) -> dict[str, str]:
    return {case.get("name", ""): case[0].tag if len(case) else "passed" for case in suite_of(bundle).iter("testcase")}


def typical_agent(**changes: Any) -> dict[str, Any]:
    return sample.document()["agent"] | changes


ENDINGS: dict[str, dict[str, Any]] = {
    "passed": {},
    "failed": {"status": "failed"},
    "partial": {"status": "partial"},
    "interrupted": {"status": "partial", "complete": False, "interrupted": True},
    "interrupted after a pass": {"status": "passed", "complete": True, "interrupted": True},
    "killed": {"status": "partial", "complete": False},
}


def ended(how: str, **changes: Any) -> ResultsBundle:
    """A run that ended in this way; none of its evaluators failed."""
    ending = {"status": "passed", "complete": True, "interrupted": False, **ENDINGS[how]}
    status = ending.pop("status")
    whole = sample.document()
    return sample.bundle(
        execution=whole["execution"] | ending,
        summary=whole["summary"] | {"failed": 0, "overall_status": status},
        outcome=None,
        **changes,
    )


class Rule(NamedTuple):
    required: set[str]
    optional: set[str]
    children: set[str]


JENKINS = {
    "testsuites": Rule(set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": Rule(
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url", "version"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": Rule(
        {"name"}, {"time", "classname", "group"}, {"skipped", "error", "failure", "system-out", "system-err"}
    ),
    "properties": Rule(set(), set(), {"property"}),
    "property": Rule({"name", "value"}, set(), set()),
    **dict.fromkeys(("failure", "error", "skipped"), Rule(set(), {"type", "message"}, set())),
    **dict.fromkeys(("system-out", "system-err"), Rule(set(), set(), set())),
}
"""What the schema of Jenkins' xUnit plugin (junit-10.xsd) allows in each element."""
JENKINS_TIME = re.compile(r"[0-9,]*(\.[0-9]{0,3})?")


def check_against_jenkins(element: ElementTree.Element) -> None:
    rule = JENKINS[element.tag]
    assert rule.required <= set(element.attrib) <= rule.required | rule.optional, element.tag
    assert element.tag == "testcase" or JENKINS_TIME.fullmatch(element.get("time", "")), element.get("time")
    for child in element:
        assert child.tag in rule.children, (element.tag, child.tag)
        check_against_jenkins(child)


@pytest.mark.parametrize("bundle", [sample.bundle(), sample.hostile_bundle()], ids=["typical", "hostile"])
def test_the_rules_that_all_schemas_share(bundle: ResultsBundle) -> None:
    root = ElementTree.fromstring(render_junit(bundle).encode("utf-8"))
    suite = suite_of(bundle)
    cases = suite.findall("testcase")
    assert set(suite.attrib) == SUITE
    assert [child.tag for child in suite] == ["properties"] + ["testcase"] * len(cases)
    assert "skipped" not in root.attrib
    for element in (root, suite):
        assert element.get("tests") == str(len(cases))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert element.get(attribute, suite.get("skipped")) == str(len(suite.findall(f"testcase/{tag}"))), attribute
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
    for case in cases:
        assert set(case.attrib) == {"classname", "name", "time"}
        assert len(case) <= 1
        assert re.fullmatch(r"\d+\.\d{3}", case.get("time", ""))
    for each in (*suite.iter("failure"), *suite.iter("error")):
        assert set(each.attrib) == {"message", "type"}
        assert each.text
        assert "\n" not in each.get("message", "")
    for each in suite.iter("property"):
        assert set(each.attrib) == {"name", "value"}


@pytest.mark.parametrize("bundle", [sample.bundle(), sample.hostile_bundle()], ids=["typical", "hostile"])
def test_another_parser_accepts_it(tmp_path: Path, bundle: ResultsBundle) -> None:
    if (xmllint := shutil.which("xmllint")) is None:
        pytest.skip("no xmllint")
    (tmp_path / "report.xml").write_text(render_junit(bundle), encoding="utf-8")
    done = subprocess.run([xmllint, "--noout", "--nonet", tmp_path / "report.xml"], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_one_case_for_the_agent_and_each_evaluator() -> None:
    assert results(sample.bundle()) == {
        "agent claude-code": "passed",
        "git-diff": "passed",
        "expected-diff": "failure",
        "agentic-judge-quality": "failure",
        "command": "error",
    }


def test_times_are_seconds() -> None:
    times = {case.get("name"): case.get("time") for case in suite_of(sample.bundle()).iter("testcase")}
    assert times["agent claude-code"] == "160.300"
    assert times["git-diff"] == "0.012"


def test_a_failure_names_the_failed_assertions() -> None:
    failure = suite_of(sample.bundle()).find("testcase[@name='agentic-judge-quality']/failure")
    assert failure is not None
    assert failure.get("message") == "1 of 3 assertions below its threshold"
    assert "no_unrelated_changes: expected 0.8, got 0.4: The image in docs/" in (failure.text or "")
    assert "tests_added" not in (failure.text or "")


def test_an_error_has_its_hint_and_traceback() -> None:
    error = suite_of(sample.bundle()).find("testcase[@name='command']/error")
    assert error is not None
    assert error.get("type") == "COMMAND_NOT_FOUND"
    assert "Install pytest" in (error.text or "")
    assert "Traceback" in (error.text or "")


@pytest.mark.parametrize(
    ("agent", "outcome", "result"),
    [
        ({"status": "failed"}, {"name": "agent_error", "valid": True, "reason": "it crashed"}, "failure"),
        ({"status": "timeout"}, {"name": "limit", "valid": True, "reason": "too slow"}, "failure"),
        ({"status": "failed"}, {"name": "provider_error", "valid": False, "reason": "529"}, "error"),
        ({"status": None}, {"name": "infra_error", "valid": False, "reason": "no disk"}, "error"),
        ({"status": None}, None, "skipped"),
    ],
)
def test_the_agents_own_case(agent: dict[str, Any], outcome: dict[str, Any] | None, result: str) -> None:
    bundle = sample.bundle(agent=typical_agent(**agent), outcome=outcome)
    assert results(bundle)["agent claude-code"] == result


def test_skipped_without_an_error() -> None:
    skipped = sample.broken() | {"error": None, "message": "nothing to compare with"}
    bundle = sample.bundle(evaluators=[skipped])
    assert results(bundle)["command"] == "skipped"
    found = suite_of(bundle).find("testcase/skipped")
    assert found is not None
    assert found.attrib == {"message": "nothing to compare with"}


@pytest.mark.parametrize("agent", [None, typical_agent(), typical_agent(status=None)], ids=["none", "done", "no end"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_only_a_run_that_passed_is_green(ending: str, agent: dict[str, Any] | None) -> None:
    """As for the exit code of `yb run`."""
    bundle = ended(ending, agent=agent, evaluators=[sample.git_diff()])
    red = {name for name, result in results(bundle).items() if result in ("failure", "error")}
    assert red == (set() if ending == "passed" else {"run"})


@pytest.mark.parametrize(
    "bundle",
    [sample.bundle(), sample.hostile_bundle(), sample.bundle(agent=None), *map(ended, ENDINGS)],
    ids=["typical", "hostile", "eval", *ENDINGS],
)
def test_jenkins_accepts_it(bundle: ResultsBundle) -> None:
    """Jenkins' xUnit plugin rejects a file that does not conform."""
    check_against_jenkins(ElementTree.fromstring(render_junit(bundle).encode("utf-8")))


def test_properties_are_plain_numbers() -> None:
    found = {each.get("name"): each.get("value") for each in suite_of(sample.bundle()).iter("property")}
    assert found["model"] == "claude-sonnet-4-5-20250929"
    assert (found["cost_usd"], found["cost_source"], found["input_tokens"]) == ("0.4321", "gateway", "12345")
    unknown = suite_of(sample.bundle(agent={"type": "command"})).iter("property")
    assert {each.get("name") for each in unknown}.isdisjoint({"cost_usd", "input_tokens", "model", "turns"})


def test_characters_that_are_invalid_in_xml() -> None:
    bundle = sample.bundle(evaluators=[sample.expected_diff() | {"message": "a\x00b\ufffec\ud800d\x1b[0me"}])
    failure = suite_of(bundle).find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "a␀b⟨U+FFFE⟩c⟨U+D800⟩de"
