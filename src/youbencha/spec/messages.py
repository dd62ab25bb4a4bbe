"""Pydantic's errors in a person's words. Never quotes a value: what stands there may be a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

KINDS: Mapping[str, str] = {
    "string_type": "text",
    "string_sub_type": "text",
    "bytes_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "decimal_type": "a number",
    "decimal_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "iterable_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
    "none_required": "empty",
    "path_type": "a path",
    "url_type": "a URL",
    "url_parsing": "a URL",
    "url_scheme": "a URL of another kind",
    "date_type": "a date",
    "date_parsing": "a date",
    "date_from_datetime_parsing": "a date",
    "datetime_type": "a date and time",
    "datetime_parsing": "a date and time",
    "datetime_from_date_parsing": "a date and time",
    "time_delta_type": "a duration",
    "time_delta_parsing": "a duration",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
"""What a value should have been: the sentence is "must be ..."."""

SENTENCES: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "unknown key",
    "invalid_key": "a key must be text",
    "greater_than": "must be more than {gt:,}",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than": "must be less than {lt:,}",
    "less_than_equal": "must be at most {le:,}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_unicode": "is not valid Unicode: it holds half of a surrogate pair",
    "string_too_short": "must have at least {min_length:,} characters",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_empty": "must not be empty",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must have at least {min_length} of them, has {actual_length}",
    "too_long": "must have at most {max_length} items, has {actual_length}",
    "union_tag_not_found": "is required",
    "union_tag_invalid": "must be {expected}",
    "frozen_field": "cannot be changed",
    "path_not_file": "there is no such file",
    "path_not_directory": "there is no such directory",
}
"""Everything else that can be said with the numbers that pydantic gives."""

PATTERNS: Mapping[str, str] = {
    r"^[^-\s]\S*$": "must be a name without spaces that does not begin with a dash",
    r"^[0-9a-fA-F]{4,64}$": "must be 4 to 64 hexadecimal digits",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "must be letters, digits, `.`, `_` and `-`, the first a letter or digit",
}
"""What a pattern asks for, where few people would read it off."""

INPUT_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "empty"),
    (bool, "true or false"),
    (int, "a number"),
    (float, "a fraction"),
    (str, "text"),
    ((list, tuple), "a list"),
    (dict, "a mapping"),
)
"""What a value is instead; bool stands before int, of which Python makes it a kind."""

NEAR_ENOUGH = 65
MANY_KEYS = 10


def kind_wanted(error: Mapping[str, Any]) -> str | None:
    """What the value should have been, if its kind is what is wrong."""
    wanted = KINDS.get(error["type"])
    return wanted.format_map(context_of(error)) if wanted else None


def wrong_kind(wanted: Iterable[str], given: Any) -> str:
    choices = list(dict.fromkeys(wanted))
    found = kind_of(given)
    contrast = f", not {found}" if found and found not in choices and not any("'" in c for c in choices) else ""
    return f"must be {' or '.join(choices)}{contrast}"


def sentence(error: Mapping[str, Any]) -> str:
    if wanted := kind_wanted(error):
        return wrong_kind([wanted], error["input"])
    context = context_of(error)
    if words := PATTERNS.get(context.get("pattern", "")):
        return words
    is_empty = error["type"] == "string_too_short" and context["min_length"] == 1
    if template := SENTENCES.get("string_empty" if is_empty else error["type"]):
        return template.format_map(context)
    raised = context.get("error")
    if raised is not None:
        return str(raised)
    return lower_first(re.sub(r"^(Input|Value|Field) should ", "must ", error["msg"]))


def context_of(error: Mapping[str, Any]) -> dict[str, Any]:
    context = dict(error.get("ctx", {}))
    if "expected_tags" in context:
        context["expected"] = context["expected_tags"]
    if "," in str(context.get("expected", "")):
        context["expected"] = f"one of {context['expected']}"
    return context


def kind_of(value: Any) -> str | None:
    return next((name for kind, name in INPUT_KINDS if isinstance(value, kind)), None)


def hint_for_value(error: Mapping[str, Any]) -> str | None:
    given = error["input"]
    if error["type"] == "string_type" and isinstance(given, int | float):
        return "put it in quotes"
    context = context_of(error)
    written = context.get("tag", given)
    if "expected" in context and isinstance(written, str):
        return did_you_mean(written, re.findall(r"'([^']*)'", str(context["expected"])))
    return None


def hint_for_key(key: str, valid: list[str]) -> str | None:
    if near := did_you_mean(key, valid):
        return near
    if not valid or len(valid) > MANY_KEYS:
        return None
    return "known keys: " + ", ".join(valid)


def did_you_mean(written: str, choices: Iterable[str]) -> str | None:
    from rapidfuzz import fuzz, process  # only once somebody made a mistake: it takes 20 ms to load

    choices = list(choices)
    best = process.extractOne(written, choices, scorer=fuzz.ratio, processor=_fold, score_cutoff=NEAR_ENOUGH)
    near = best[0] if best else _begun(_fold(written), choices)
    return f"did you mean '{near}'?" if near else None


def _begun(written: str, choices: Iterable[str]) -> str | None:
    """The word that was only begun (`input` for `input_tokens`), which no measure of likeness finds near."""
    return next((c for c in choices if len(written) > 2 and _fold(c).startswith(written)), None)


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")


def lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
