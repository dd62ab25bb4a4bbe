"""What a terminal adds to a text, and how to take it out again."""

from __future__ import annotations

import re

# The seeds' `\x1B\[[0-9;]*m` misses what CLIs really write to a PTY: ESC[?25h, ESC[<u, ESC]9;4;0;BEL, ESC 7.
# Every alternative is linear, and a sequence that never ends costs its introducer only, not the text after it.
ANSI_PATTERN = re.compile(
    r"""\x1b(?:
        \[[0-?]*[\x20-/]*[@-~]                  # CSI, private ones too
      | \][^\x07\x1b\n]*(?:\x07|\x1b\\)         # OSC
      | [PX^_][^\x1b\n]*\x1b\\                  # DCS, SOS, PM, APC
      | [\x20-/]*[0-~]                          # ESC 7, ESC 8, ESC =, ESC ( B
    )?""",
    re.VERBOSE,
)


def strip_ansi(text: str) -> str:
    """The text without terminal sequences; no ESC is left in it."""
    return ANSI_PATTERN.sub("", text) if "\x1b" in text else text


def clean_text(text: str) -> str:
    """The text as a person would read it: no terminal sequences, plain line ends, no half characters."""
    text = strip_ansi(text).replace("\r\n", "\n")
    # Half of a surrogate pair cannot be written to a UTF-8 file; the capture may have let one through.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
