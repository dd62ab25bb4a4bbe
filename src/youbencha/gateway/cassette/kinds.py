"""The kinds of what differs from run to run: how each is written. Pure.

In what a tool gave back, to take too much for volatile does little harm. In a person's words it does: a changed task
would be taken for the one that was recorded. So there it must be an id that nobody would write by hand.
"""

from __future__ import annotations

from collections.abc import Mapping

from youbencha.gateway.cassette.days import CLOCK, WEEKDAY, ZONE

_END = r"(?![A-Za-z0-9])"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_ID_PREFIX = (
    "toolu|tooluse|tool|msg|call|resp|fc|fco|rs|ctc|ctco|cmpl|chatcmpl|req|ses|prt|item|run|thread|srvtoolu|gen|user"
)
_LINE = r"(?:(?<![^\n])|(?<=\\n))"
"""Where a line starts, also in text that is itself in JSON."""
_LOOSE = r"(?=[A-Za-z]{0,19}\d)[A-Za-z0-9]{6,20}"
"""With a digit: else it may be any word."""
_MADE_UP = "[a-z0-9]{6,12}"
"""Without one too, where nobody but Claude Code would write it."""
MIXED = r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]"
COUNTED = rf"[A-Za-z]+\d+{_END}"
"""A word with a number, as people call the second of its kind."""
_TEMPORARY = r"(?:(?<=/tmp/)|(?<=/shm/)|(?<=/T/)|(?<=\\Temp\\))"
FILE_NAME = r"[^/\s\"'`<>|:;,()\[\]{}\\*?$]+"

# -- in anybody's words ---------------------------------------------------------------------------------------------

DIGIT_FIRST: Mapping[str, str] = {"run": rf"\d{{4}}-\d\d-\d\d-\d{{6}}-[0-9a-f]{{6}}{_END}"}
_IDS: Mapping[str, str] = {
    "billing": r"x-anthropic-billing-header:[^\n]*",
    "loose": r"(?:(?:with|Chunk|agent|shell|task|session) ID|agentId|(?:agent|bash|shell|task|session)_id)"
    rf"\\?[\"']?[:=]? ?\\?[\"']?(?P<loose_id>{_LOOSE}){_END}",
    "loose_tag": rf"(?:task|agent|shell|bash)-?id>(?P<tag_id>{_LOOSE})(?=<)",
    "loose_file": rf"(?:tasks|tool-results)/(?P<file_id>{_LOOSE})(?=\.[a-z]+)",
}
LETTER_FIRST: Mapping[str, str] = {
    **_IDS,
    "prefixed": rf"(?:{_ID_PREFIX})[_-](?=[A-Za-z0-9_-]*?{MIXED}{{12}})[A-Za-z0-9_-]{{12,}}",
    "system": r"OS Version: [^\n]+",
}
ANY_FIRST: Mapping[str, str] = {
    # Claude Code's list of commits in its system prompt: one hash in 26 has no letter, or no digit.
    "listed_commit": r"(?<=Recent commits:\n)[0-9a-f]{7,40}(?= )",
    "temporary": _TEMPORARY + FILE_NAME,
    "uuid": rf"[0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}{_END}",
    "hex": rf"(?=[a-fA-F]*\d)(?=\d*[a-fA-F])(?:[0-9a-fA-F]{{12,}}|[0-9a-f]{{7,11}}){_END}",
}

# -- in what a tool gave back ---------------------------------------------------------------------------------------

TOOL_DIGIT_FIRST: Mapping[str, str] = {
    **DIGIT_FIRST,
    "iso_date": rf"\d{{4}}-\d\d-\d\d(?:[T ]{CLOCK}{ZONE}?)?(?!\d)",
    "packed_date": rf"20\d{{6}}[T_-]?\d{{4,6}}Z?{_END}",
    "slash_date": r"\d{1,4}/\d{1,2}/\d{2,4}(?![\w/])",
    "day_first": rf"\d{{1,2}} {_MONTH},? \d{{4}}(?: {CLOCK})?{ZONE}?",
    "duration": rf"(?:\d+[hm] ?)*\d+(?:\.\d+)? ?(?:ms|[µu]s|ns|s|secs?|seconds?|milliseconds?|minutes?){_END}",
    "clock": rf"(?<![.:/-]){CLOCK}(?: ?[AP]M)?(?![\w:])",
    "socket": r"\d{2,7}(?=\.(?:sock|pid)\b)",
    "epoch": rf"1[5-9]\d{{8}}(?:\.\d+)?{_END}",
}
TOOL_LETTER_FIRST: Mapping[str, str] = {
    **_IDS,
    "made_up": rf"running in background with ID: (?P<made_up_id>{_MADE_UP}){_END}",
    "made_up_tag": rf"(?:task|agent|shell|bash)-id>(?P<made_up_tag_id>{_MADE_UP})(?=</)",
    "made_up_file": rf"(?:tasks|tool-results)/(?P<made_up_file_id>{_MADE_UP})(?=\.(?:output|txt)\b)",
    "prefixed": rf"(?:{_ID_PREFIX})[_-](?=[A-Za-z_-]{{0,40}}\d)[A-Za-z0-9_-]{{8,}}",
    "named_date": rf"(?:{WEEKDAY},? +)?{_MONTH} +\d{{1,2}}(?:,? +(?:{CLOCK}|\d{{4}}))+"
    rf"(?: [A-Z]{{3,4}} \d{{4}})?{ZONE}?",
    "pid": r"(?:(?:PID|pid|PGID|pgid)s?|[Pp]rocess)[ =:]{1,2}(?P<pid_number>\d{2,7})(?!\d)",
    "counted": rf"(?:Original token count: \d+|(?:{_LINE}|(?<=: ))total [\d.]+[KMG]?(?=\n|$))",
    "system": r"(?:OS Version: [^\n]+|(?:Linux|Darwin) \d+\.\d+\.\d+[-\w.]*)",
    "port_named": r"(?:localhost|host\.docker\.internal):(?P<named_port>\d{2,5})(?!\d)",
}
TOOL_ANY_FIRST: Mapping[str, str] = {
    "temporary": _TEMPORARY + FILE_NAME,
    "uuid": ANY_FIRST["uuid"],
    "commit": rf"(?:(?<=commit )[0-9a-f]{{7,40}}(?=[\s,.)])|{_LINE}[0-9a-f]{{7,11}}(?= \S))",
    "hex": rf"(?:[0-9a-fA-F]{{12,}}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{7,11}}){_END}",
    "port": r"(?:127\.0\.0\.1|0\.0\.0\.0|\[::1\]):(?P<port_number>\d{2,5})(?!\d)",
    "rule": r"={4,}",
    "listing": rf"{_LINE}[-bcdlps][-rwxsStT]{{9}}[.+@]?(?P<owner_and_size> +\d+ +\S+ +\S+ +\d[\d.,]*[KMG]?)(?= )",
}
