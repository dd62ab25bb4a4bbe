"""How a CLI is told that nothing more comes."""

from __future__ import annotations

from typing import Any

END_SESSION: dict[str, Any] = {
    "type": "control_request",
    "request_id": "youbencha-end",
    "request": {"subtype": "end_session"},
}
"""2.1.72 and later."""
PROTOCOL_ERROR = 1002
"""The close code that 2.1.50 and later take for a reason to exit. After any other they connect again, for ever."""
LEAVES_WITHIN_S = 5.0
"""All exit within 0.3 s, and 2.1.325 within 1.6 s if it has to end commands in the background."""
