"""The error answers of the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPE_OF_STATUS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}

MESSAGE_OF_TYPE: Mapping[str, str] = {
    "authentication_error": "invalid x-api-key",
    "billing_error": "There is a problem with the billing or payment information.",
    "permission_error": "The API key may not use this resource.",
    "not_found_error": "The requested resource was not found.",
    "request_too_large": "The request is larger than allowed.",
    "rate_limit_error": "This request would exceed the rate limit.",
    "api_error": "Internal server error",
    "timeout_error": "The request timed out.",
    "overloaded_error": "Overloaded",
}


def error_type(status: int) -> str:
    default = "api_error" if status >= 500 else "invalid_request_error"
    return TYPE_OF_STATUS.get(status, default)


def error_body(status: int, message: str | None, kind: str | None, request_id: str | None) -> dict[str, Any]:
    kind = kind or error_type(status)
    text = message or MESSAGE_OF_TYPE.get(kind, "The script says so.")
    body: dict[str, Any] = {"type": "error", "error": {"type": kind, "message": text}}
    return body | ({"request_id": request_id} if request_id else {})
