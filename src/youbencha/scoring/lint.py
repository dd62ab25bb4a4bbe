"""Count the issues that a linter or a compiler reports, and score those that the agent added."""

from __future__ import annotations

import re

COST_OF_AN_ISSUE = 0.1

_ESCAPE = re.compile(r"\x1b\[[0-?]{0,99}[ -/]{0,9}[@-~]")

_ISSUE = re.compile(
    r"^(?:"
    # path:1:2: message, of ruff (concise), flake8, mypy, pylint, gcc, go vet, golangci-lint, shellcheck -f gcc
    r"(?!\s|[0-9]{1,20}:)[^\n:]{1,500}:[0-9]{1,9}(?::[0-9]{1,9})?: (?!note\b|info\b|help\b)\S"
    # path(1,2): error TS2322: message, of tsc; and MSBuild
    r"|(?!\s)[^\n(]{1,500}\([0-9]{1,9},[0-9]{1,9}\): (?:error|warning)\b"
    # path:1:2 - error TS2322: message, of tsc --pretty
    r"|(?!\s)[^\n:]{1,500}:[0-9]{1,9}:[0-9]{1,9} - (?:error|warning)\b"
    # 1:2  error  message  rule, of eslint
    r"|[ \t]{1,20}[0-9]{1,9}:[0-9]{1,9}[ \t]{1,20}(?:error|warning)[ \t]"
    # F401 [*] message, on the line before ` --> path:1:2`, of ruff
    r"|[A-Z]{1,6}[0-9]{2,5} [^\n]{1,500}\n *--> "
    # error[E0308]: message, on the line before ` --> path:1:2`, of rustc and clippy
    r"|(?:error|warning)(?:\[[A-Za-z0-9:_-]{1,60}\])?: [^\n]{1,500}\n *--> "
    r")",
    re.MULTILINE,
)
_TOTAL = re.compile(
    r"^(?:Found ([0-9]{1,9}) errors?\b"  # ruff, mypy, tsc
    r"|[✖×] ([0-9]{1,9}) problems? \("  # eslint
    r"|([0-9]{1,9}) issues?:?$)",  # golangci-lint
    re.MULTILINE,
)


def count_issues(text: str, exit_code: int | None) -> int | None:
    """How many issues are reported. None if that cannot be told: the command failed and lists none, or did not end.

    Some linters list every issue, some also print how many there are, and a command may run several: the larger number
    counts.
    """
    if exit_code is None:
        return None
    text = _ESCAPE.sub("", text.replace("\r\n", "\n"))
    listed = sum(1 for _ in _ISSUE.finditer(text))
    stated = sum(int(number) for found in _TOTAL.findall(text) for number in found if number)
    issues = max(listed, stated)
    return issues if issues or exit_code == 0 else None


def lint_score(issues: int | None, baseline_issues: int | None) -> float | None:
    """1, less a tenth for each issue more than in the untouched task.

    Output that could not be parsed scores 0 if that of the untouched task could be; else nothing is measured.
    """
    if baseline_issues is None:
        return None
    if issues is None:
        return 0.0
    return round(max(0.0, 1 - COST_OF_AN_ISSUE * max(0, issues - baseline_issues)), 9)
