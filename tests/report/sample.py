"""A run with everything: passing and failing evaluators, a judge, a reference, hooks, and hostile text."""

from __future__ import annotations

from typing import Any

from youbencha.log.model import YouBenchaLog
from youbencha.report.markdown import render_markdown
from youbencha.report.run_document import run_document
from youbencha.store.bundle import ResultsBundle


def markdown(bundle: ResultsBundle) -> str:
    return render_markdown(run_document(bundle))


WHEN = "2026-03-01T09:30:00.000Z"
LATER = "2026-03-01T09:33:07.412Z"
HASH = "9f2c4be1d0a7" + "0" * 52
COMMIT = "4be1d0a79f2c4be1d0a79f2c4be1d0a79f2c4be1"

SCRIPT = "</script><script>alert(1)</script>"
IMAGE = '<img src=x onerror="alert(1)">'
TURNED = "abc\u202edcba"
ESCAPE = "\x1b]0;owned\x07 \x1b[31mred\x1b[0m"
HOSTILE = (
    SCRIPT,
    IMAGE,
    TURNED,
    ESCAPE,
    "a | b || \\| c",
    "`` ` ``` code ~~~",
    "[click](javascript:alert(1)) ![x](http://evil.example/x.png)",
    "@everyone see #1 and GH-2",
    "<!-- hidden --> &lt;b&gt; $x$ {{ 7*7 }} {% raw %}",
    "line one\n# heading\n| a | b |\n|---|---|\n::error::gotcha",
    "\x00\x08\x7f\x85\ud800\ufffe",
    "</style><style>*{display:none}</style>",
    "]]> --> '\" onload=alert(1)",
)
"""Each is put wherever a text can come from outside."""


def hostile_text() -> str:
    return " ".join(HOSTILE)


def changed_files(number: int) -> list[dict[str, Any]]:
    return [
        {"path": f"src/part_{at:03d}.py", "kind": "modified", "additions": at, "deletions": 1, "changes": at + 1}
        for at in range(number)
    ]


def similarities(number: int) -> list[dict[str, Any]]:
    return [
        {"path": f"src/file_{at:02d}.py", "similarity": 1 - at / 100, "status": "changed" if at else "matched"}
        for at in range(number)
    ]


def git_diff() -> dict[str, Any]:
    return {
        "evaluator": "git-diff",
        "status": "passed",
        "message": "3 files changed, 42 lines added, 7 removed",
        "duration_ms": 12,
        "timestamp": LATER,
        "metrics": {
            "files_changed": 3,
            "lines_added": 42,
            "lines_removed": 7,
            "total_changes": 49,
            "change_entropy": 1.4591,
            "base_commit": COMMIT,
            "current_commit": None,
            "violations": [],
            "changed_files": [
                {"path": "src/pricing.py", "kind": "modified", "additions": 21, "deletions": 7, "changes": 28},
                {"path": "tests/test_pricing.py", "kind": "added", "additions": 21, "deletions": 0, "changes": 21},
                {"path": "docs/größe-价格.png", "kind": "added", "additions": None, "deletions": None, "changes": 0},
            ],
        },
        "assertions": [
            {"name": "max_files_changed", "passed": True, "expected": 5, "actual": 3},
            {"name": "forbidden_paths", "passed": True, "expected": ["*.lock"], "actual": []},
        ],
    }


def expected_diff() -> dict[str, Any]:
    return {
        "evaluator": "expected-diff",
        "status": "failed",
        "message": "Similarity 78.4%, below the threshold of 80%",
        "duration_ms": 184,
        "timestamp": LATER,
        "metrics": {
            "aggregate_similarity": 0.784,
            "threshold": 0.8,
            "files_matched": 1,
            "files_changed": 29,
            "files_added": 1,
            "files_removed": 0,
            "file_similarities": similarities(30),
        },
        "assertions": [{"name": "threshold", "passed": False, "expected": 0.8, "actual": 0.784}],
        "artifacts": [
            {"type": "report", "path": "evaluators/expected-diff/report.json", "description": "Every file's similarity"}
        ],
    }


def judge() -> dict[str, Any]:
    return {
        "evaluator": "agentic-judge-quality",
        "status": "failed",
        "message": "1 of 3 assertions below its threshold",
        "duration_ms": 21_480,
        "timestamp": LATER,
        "metrics": {"votes": 3, "mean_score": 0.7167, "judges": {"model": "claude-sonnet-4-5", "agreement": [1, 0.66]}},
        "assertions": [
            {
                "name": "tests_added",
                "passed": True,
                "expected": 0.7,
                "actual": 0.95,
                "message": "A new test file covers rounding, negative prices and the empty cart.",
            },
            {
                "name": "follows_style",
                "passed": True,
                "expected": 0.5,
                "actual": 0.8,
                "message": "Names and layout follow the module; one helper could be private.",
            },
            {
                "name": "no_unrelated_changes",
                "passed": False,
                "expected": 0.8,
                "actual": 0.4,
                "message": "The image in docs/ has nothing to do with the task — größer als nötig, 不必要。",
            },
        ],
        "usage": {"input_tokens": 40_100, "output_tokens": 1_220, "total_tokens": 41_320, "cost_usd": 0.1387}
        | {"cost_source": "agent"},
    }


def broken() -> dict[str, Any]:
    return {
        "evaluator": "command",
        "status": "skipped",
        "message": "Could not start: pytest",
        "duration_ms": 3,
        "timestamp": LATER,
        "error": {
            "message": "pytest is not on PATH.",
            "code": "COMMAND_NOT_FOUND",
            "hint": "Install pytest, or give its full path in `command`.",
            "stack_trace": 'Traceback (most recent call last):\n  File "command.py", line 12, in evaluate\n    ```\n',
        },
    }


def document() -> dict[str, Any]:
    """Whole, typical, harmless."""
    return {
        "version": "1.0.0",
        "test_case": {
            "name": "Prices are rounded half up",
            "description": "The shop rounds 0.125 to 0.12. Make it 0.13, and show with tests that it stays so.",
            "config_file": "testcases/rounding.yaml",
            "config_hash": HASH,
            "repo": "https://github.com/example/shop.git",
            "branch": "main",
            "commit": COMMIT,
            "expected_branch": "solution/rounding",
        },
        "execution": {
            "started_at": WHEN,
            "completed_at": LATER,
            "duration_ms": 187_412,
            "youbencha_version": "0.2.0",
            "environment": {
                "os": "Linux 6.1 x86_64",
                "python_version": "3.12.4",
                "workspace_dir": ".youbencha-workspace/run-2026-03-01-1772357400000",
            },
            "phases_ms": {
                "checkout": 310,
                "pre_execution": 4_020,
                "agent": 160_300,
                "freeze": 41,
                "evaluation": 21_700,
                "post_evaluation": 1_041,
            },
        },
        "agent": {
            "type": "claude-code",
            "agent_name": "careful-coder",
            "version": "2.1.120",
            "adapter_version": "1.0.0",
            "youbencha_log_path": "youbencha-log.json",
            "status": "success",
            "exit_code": 0,
            "duration_ms": 160_300,
            "model": "claude-sonnet-4-5-20250929",
            "usage": {
                "input_tokens": 12_345,
                "output_tokens": 6_789,
                "total_tokens": 19_134,
                "cache_read_tokens": 1_204_000,
                "cache_creation_tokens": 45_100,
                "cost_usd": 0.4321,
                "cost_source": "gateway",
            },
            "turns": 14,
            "tool_calls": 23,
            "tools_used": {"Bash": 9, "Edit": 6, "Read": 7, "Write": 1},
            "warnings": [
                {
                    "message": "2 tool calls were denied: WebFetch, WebSearch",
                    "timestamp": LATER,
                    "code": "CLAUDE_TOOLS_DENIED",
                    "hint": "Allow them with `allowed_tools`, or leave them out of the prompt.",
                }
            ],
        },
        "evaluators": [git_diff(), expected_diff(), judge(), broken()],
        "summary": {"total_evaluators": 4, "passed": 1, "failed": 2, "skipped": 1, "overall_status": "failed"},
        "outcome": {"name": "unsolved", "valid": True, "reason": "2 of 4 evaluators did not pass"},
        "identity": {
            "run_id": "run-2026-03-01-1772357400000",
            "youbencha_version": "0.2.0",
            "agent_type": "claude-code",
            "agent_version": "2.1.120",
            "agent_executable": "claude",
            "agent_sha256": "ab" * 32,
            "model": "claude-sonnet-4-5-20250929",
            "task_commit": COMMIT,
            "config_hash": HASH,
        },
        "hooks": {
            "pre_execution": [
                {"hook": "script", "status": "success", "message": "make deps", "duration_ms": 4_020, "timestamp": WHEN}
            ],
            "post_evaluation": [
                {
                    "hook": "webhook",
                    "status": "failed",
                    "message": "No answer after 3 attempts",
                    "duration_ms": 1_041,
                    "timestamp": LATER,
                    "error": {"message": "503 Service Unavailable", "code": "WEBHOOK_FAILED"},
                }
            ],
        },
        "artifacts": {
            "agent_log": "youbencha-log.json",
            "diff": "git-diff.patch",
            "reports": ["report.md"],
            "evaluator_artifacts": ["evaluators/expected-diff/report.json"],
        },
    }


def bundle(**changes: Any) -> ResultsBundle:
    """The typical one, with whole sections put in place of its own."""
    return ResultsBundle.model_validate({**document(), **changes})


def hostile_bundle(text: str = "") -> ResultsBundle:
    """Return a bundle with this text, or with all hostile ones, wherever a text is not from a fixed set."""
    kept = {"status", "overall_status", "cost_source", "version", "timestamp"}
    kept |= {"started_at", "completed_at", "code"}
    text = text or hostile_text()

    def poisoned(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: poisoned(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [poisoned(inner, key) for inner in value]
        return f"{value} {text}" if isinstance(value, str) and key not in kept else value

    poison = poisoned(document())
    poison["outcome"]["name"] = "unsolved"
    for record in poison["agent"]["warnings"]:
        record["message"] = record["message"].replace("\ud800", "")  # a bounded text has to be one for pydantic
    poison["evaluators"][0]["metrics"] |= {text: text, "nested": {text: [text, {"deep": None}]}}
    poison["agent"]["tools_used"] = {text: 3}
    poison["execution"]["phases_ms"] = {text: 5}
    return ResultsBundle.model_validate(poison)


PATCH = """\
diff --git a/src/pricing.py b/src/pricing.py
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/src/pricing.py
+++ b/src/pricing.py
@@ -1,7 +1,9 @@
 \"\"\"What things cost.\"\"\"
~
+from decimal import ROUND_HALF_UP, Decimal
+
~
 def rounded(price: float) -> float:
-    return round(price, 2)
+    return float(Decimal(str(price)).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP))
~
~
@@ -20,4 +22,3 @@ def total(cart: list[float]) -> float:
     result = 0.0
-    # add up
     for price in cart:
         result += rounded(price)
--- a/not/a/header
diff --git a/tests/test_pricing.py b/tests/test_pricing.py
new file mode 100644
index 0000000000000000000000000000000000000000..3333333333333333333333333333333333333333
--- /dev/null
+++ b/tests/test_pricing.py
@@ -0,0 +1,3 @@
+def test_half_goes_up() -> None:
+    assert rounded(0.125) == 0.13
+    assert "<img src=x onerror=alert(1)></script>" != "größe"
\\ No newline at end of file
diff --git a/old name.txt b/new name.txt
similarity index 100%
rename from old name.txt
rename to new name.txt
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git "a/docs/gr\\303\\266\\303\\237e.png" "b/docs/gr\\303\\266\\303\\237e.png"
new file mode 100644
index 0000000000000000000000000000000000000000..4444444444444444444444444444444444444444
GIT binary patch
literal 10
Rcmb=J00000000000000

literal 0
HcmV?d00001

diff --git a/gone.txt b/gone.txt
deleted file mode 100644
index 5555555555555555555555555555555555555555..0000000000000000000000000000000000000000
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
""".replace("\n~\n", "\n \n").replace("\n~\n", "\n \n")  # a line that is one space


def big_patch(files: int, lines: int) -> str:
    return "".join(
        f"diff --git a/big/{at}.txt b/big/{at}.txt\nnew file mode 100644\n--- /dev/null\n+++ b/big/{at}.txt\n"
        f"@@ -0,0 +1,{lines} @@\n" + "".join(f"+line {number} of file {at}\n" for number in range(lines))
        for at in range(files)
    )


def log(messages: int = 4, calls: int = 5, text: str = "") -> YouBenchaLog:
    spoken = [
        {"role": "user", "content": "Make it round half up, and add tests.", "timestamp": WHEN},
        {
            "role": "assistant",
            "content": f"I'll look at the code first.\n\n{text}",
            "timestamp": "2026-03-01T09:30:04Z",
        },
        {"role": "assistant", "content": "A subagent speaks. Übermäßig 😀", "parent": "call-3"},
        {"role": "assistant", "content": "Done:\n" + "\n".join(f"- step {at}" for at in range(30)), "timestamp": LATER},
    ]
    tools = [
        {"name": "Read", "arguments": '{"file_path": "src/pricing.py"}', "result": "1\tdef rounded", "is_error": False},
        {"name": "Bash", "arguments": '{"command": "pytest -q"}', "result": "1 failed, 3 passed", "is_error": True},
        {"name": "Edit", "arguments": '{"file_path": "src/pricing.py", "old": "<b>"}', "result": text or "ok"},
        {"name": "Task", "arguments": '{"prompt": "look around"}', "id": "call-3", "is_error": False, "result": ""},
        {"name": "Odd", "arguments": "not json " + text},
    ]
    return YouBenchaLog.model_validate(
        {
            "agent_info": {"name": "claude-code", "version": "2.1.120", "adapter_version": "1.0.0"},
            "model_info": {"name": "claude-sonnet-4-5", "provider": "anthropic"},
            "execution": {
                "started_at": WHEN,
                "completed_at": LATER,
                "duration_ms": 160_300,
                "exit_code": 0,
                "status": "success",
            },
            "messages": [spoken[at % 4] for at in range(messages)],
            "tool_calls": [tools[at % 5] for at in range(calls)],
        }
    )
