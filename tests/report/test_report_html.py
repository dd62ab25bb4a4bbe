"""A self-contained page, whose structure hostile text cannot change."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from typing import Any

import pytest
import sample

from youbencha.report.html import Attachments, render_html
from youbencha.store.bundle import ResultsBundle
from youbencha.text import visible

VOID = {"meta", "link", "br"}
URL_ATTRIBUTES = {"href", "src", "action", "data", "srcset", "xlink:href", "formaction", "poster"}


class Page(HTMLParser):
    """What a browser makes of it: its tags with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def everything() -> Attachments:
    text = sample.hostile_text()
    patch = sample.PATCH + f"diff --git a/{sample.IMAGE} b/{sample.IMAGE}\n@@ -0,0 +1 @@\n+{sample.SCRIPT}\n"
    return Attachments(diff=patch, diff_file="git-diff.patch", log=sample.log(text=text))


@pytest.fixture(scope="module")
def typical() -> Page:
    return Page(
        render_html(sample.bundle(), Attachments(diff=sample.PATCH, diff_file="git-diff.patch", log=sample.log()))
    )


@pytest.fixture(scope="module")
def hostile() -> Page:
    return Page(render_html(sample.hostile_bundle(), everything()))


def policy_of(page: Page) -> str:
    return next(
        each["content"] or "" for each in page.all("meta") if each.get("http-equiv") == "Content-Security-Policy"
    )


@pytest.mark.parametrize("kind", ["typical", "hostile"])
def test_the_page_is_well_formed(kind: str, request: pytest.FixtureRequest) -> None:
    page: Page = request.getfixturevalue(kind)
    assert (page.open, page.unbalanced) == ([], [])
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    targets = {(each["href"] or "")[1:] for each in page.all("a") if (each["href"] or "").startswith("#")}
    assert targets <= set(identifiers)


@pytest.mark.parametrize("kind", ["typical", "hostile"])
def test_the_page_loads_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    page: Page = request.getfixturevalue(kind)
    urls = [value or "" for _, attributes in page.tags for name, value in attributes.items() if name in URL_ATTRIBUTES]
    assert urls
    assert all(url.startswith(("#", "./", "data:image/svg+xml,")) for url in urls)
    style = re.search(r"<style>(.*?)</style>", render_html(sample.bundle()), re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_the_content_security_policy_allows_only_its_own_style() -> None:
    text = render_html(sample.bundle())
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(style) == 1
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    policy = policy_of(Page(text))
    assert "default-src 'none'" in policy
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy


def test_hostile_text_adds_no_tag_and_no_attribute(hostile: Page) -> None:
    """Every tag is one that a page without harm could have, too."""
    names = {tag for tag, _ in hostile.tags}
    assert names.isdisjoint({"script", "img", "iframe", "object", "form", "base", "b0"})
    assert hostile.all("style") == [{}]
    attributes = {name for _, found in hostile.tags for name in found}
    assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcdoc")]
    known = {
        "aria-hidden",
        "aria-label",
        "charset",
        "class",
        "colspan",
        "content",
        "height",
        "href",
        "http-equiv",
        "id",
    }
    known |= {
        "lang",
        "name",
        "open",
        "preserveaspectratio",
        "rel",
        "role",
        "rx",
        "scope",
        "tabindex",
        "viewbox",
        "width",
    }
    assert attributes <= known | {"x"}


@pytest.mark.parametrize("text", sample.HOSTILE)
def test_hostile_text_is_shown_as_text(hostile: Page, text: str) -> None:
    assert " ".join(visible(text).split()) in hostile.words


def test_a_template_in_a_text_is_not_run(hostile: Page) -> None:
    assert "{{ 7*7 }}" in hostile.words
    assert " $x$ 49 " not in hostile.words


@pytest.mark.parametrize(
    "words",
    [
        "failed unsolved: 2 of 4 evaluators did not pass",
        "Evaluators passed 1 of 4 2 failed, 1 skipped",
        "Cost $0.4321 metered by the gateway",
        "12,345 in · 6,789 out · 1,204,000 cache read · 45,100 cache write",
        "✗ no no_unrelated_changes 0.4 0.8 The image in docs/",
        "COMMAND_NOT_FOUND pytest is not on PATH.",
        "… and 9 more",
        "Changes +6 −3 in 6 files",
        "A binary file: nothing to read.",
        "No newline at end of file",
        "from old name.txt",
        "✗ failed Bash pytest -q",
        "· result unknown Odd not json",
        "503 Service Unavailable",
        "Executable SHA-256",
    ],
)
def test_contents(typical: Page, words: str) -> None:
    plain = html.unescape(words)
    assert plain in typical.words


def test_failures_are_expanded_and_the_rest_is_collapsed(typical: Page) -> None:
    cards = {each["class"]: "open" in each for each in typical.all("details") if "card" in (each.get("class") or "")}
    assert (cards["card failed"], cards["card skipped"], cards["card passed"]) == (True, True, False)


def test_only_the_first_of_many_failures_are_expanded() -> None:
    failed = [{**sample.git_diff(), "evaluator": f"command:{at}", "status": "failed"} for at in range(12)]
    page = Page(render_html(sample.bundle(evaluators=failed)))
    cards = ["open" in each for each in page.all("details") if each.get("class") == "card failed"]
    assert cards == [True] * 5 + [False] * 7


def test_the_cost_of_judging_is_shown_beside_the_cost() -> None:
    small = "<dt>Cost</dt><dd>$0.4321<small>metered by the gateway, judging $0.1387</small>"
    assert small in render_html(sample.bundle())
    assert "<dt>Judging cost</dt><dd>$0.1387" in render_html(sample.bundle(agent=None))


def test_the_agents_version_is_shown_beside_its_name() -> None:
    text = render_html(sample.bundle())
    assert "<dt>Agent</dt><dd>claude-code<small>2.1.120 · success (exit code 0)</small>" in text


def test_the_verdict_is_in_the_title_and_the_heading() -> None:
    text = render_html(sample.bundle())
    assert "<title>failed: Prices are rounded half up</title>" in text
    assert '<header class="verdict failed">' in text


def test_links_to_files_beside_it() -> None:
    artifacts = {"agent_log": "javascript:alert(1)", "diff": "//evil.example/x", "reports": ["a b/ü?#.md"]}
    page = Page(render_html(sample.bundle(artifacts=artifacts, evaluators=[])))
    links = [each["href"] for each in page.all("a") if (each["href"] or "").startswith("./")]
    assert links == ["./javascript%3Aalert%281%29", "./evil.example/x", "./a%20b/%C3%BC%3F%23.md"]


def test_unknown_is_never_zero() -> None:
    page = Page(render_html(sample.bundle(agent={"type": "command"}, evaluators=[])))
    for name in ("Cost", "Tokens", "Turns", "Tool calls", "Model"):
        assert f"{name} unknown" in page.words, name


def test_tool_calls_that_nothing_measured_are_unknown() -> None:
    for log, shown in (
        (sample.log(), "Tools 5 calls"),
        (sample.log().model_copy(update={"claims": ("tool_calls",)}), "It is unknown which were called."),
        (
            sample.log().model_copy(update={"tool_calls": (), "tool_calls_known": False}),
            "It is unknown which were called.",
        ),
        (sample.log().model_copy(update={"tool_calls": ()}), "None were called."),
    ):
        assert shown in Page(render_html(sample.bundle(), Attachments(log=log))).words


def test_limitations_of_the_verdict_are_shown_at_the_top() -> None:
    execution = sample.document()["execution"] | {"interrupted": True, "complete": False}
    outcome = {"name": "infra_error", "valid": False, "reason": "no disk"}
    words = Page(render_html(sample.bundle(execution=execution, outcome=outcome))).words
    assert "this run is interrupted." in words
    assert "this run is not valid: exclude it from scores." in words


@pytest.mark.parametrize("status", ["passed", "failed", "partial"])
def test_every_verdict_has_its_colour(status: str) -> None:
    summary = {"total_evaluators": 0, "passed": 0, "failed": 0, "skipped": 0, "overall_status": status}
    text = render_html(sample.bundle(summary=summary, evaluators=[]))
    assert f".verdict.{status} {{ border-color:" in text


def test_a_bundle_of_eval() -> None:
    page = Page(render_html(sample.bundle(agent=None, outcome=None, hooks={}, evaluators=[])))
    assert (page.open, page.unbalanced) == ([], [])
    assert "None ran." in page.words


def test_large_attachments_are_shown_in_part_with_a_note() -> None:
    beside = Attachments(
        diff=sample.big_patch(120, 1000),
        diff_file="git-diff.patch",
        diff_left_out=3 * 1024**2,
        log=sample.log(messages=1000, calls=1000, text="x" * 50_000),
    )
    text = render_html(sample.bundle(), beside)
    assert len(text) < 8_000_000
    words = Page(text).words
    for note in (
        "20 more files not shown",
        "3 MiB",
        "800 messages left out",
        "800 calls left out",
        "more characters",
    ):
        assert note in words, note


def test_a_missing_log_is_explained() -> None:
    assert "too large" in Page(render_html(sample.bundle(), Attachments(log_note="The log is too large."))).words


def test_metrics_of_every_type_can_be_shown() -> None:
    metrics: dict[str, Any] = {"a": None, "b": True, "c": [], "d": {"e": [1, {"f": None}]}, "g": "x\ny", "h": 1e300}
    metrics |= {
        "rows": [{"path": "x"}, {"path": "y", "similarity": None}],
        "similar": [{"path": "x", "similarity": None}],
    }
    result = sample.git_diff() | {"metrics": metrics}
    bundle = ResultsBundle.model_validate(sample.document() | {"evaluators": [result]})
    words = Page(render_html(bundle)).words
    assert '{"e": [1, {"f": null}]}' in words
    assert "None" not in words.replace("None ran", "")


def test_code_in_a_message_is_shown_as_code() -> None:
    message = "`python3 -B <x>` took 0.2 s. `unpaired"
    document = sample.document()
    document["evaluators"][0]["message"] = message
    text = render_html(ResultsBundle.model_validate(document))
    assert "<code>python3 -B &lt;x&gt;</code> took 0.2 s. `unpaired" in text
