"""Options that say how a model is reached: of `yb run`, and in part of `yb gateway`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from youbencha.errors import YouBenchaError

if TYPE_CHECKING:
    from youbencha.spec.gateway import CassetteMode, CassetteSpec
    from youbencha.trial.gateway import GatewayOptions


def gateway_options(
    kind: str | None, budget: float | None, *, record: Path | None, replay: Path | None, auto: Path | None
) -> GatewayOptions:
    from youbencha.spec.gateway import GatewayType
    from youbencha.trial.gateway import GatewayOptions

    if kind is not None and kind not in get_args(GatewayType):
        known = ", ".join(get_args(GatewayType))
        raise YouBenchaError("OPTION_INVALID", f"--gateway cannot be {kind}", hint=f"It is one of {known}.")
    if budget is not None and (budget < 0 or not math.isfinite(budget)):
        raise YouBenchaError("OPTION_INVALID", f"--budget {budget}: not an amount", hint="Give dollars: --budget 2.50")
    return GatewayOptions(cast("GatewayType | None", kind), budget, cassette_given(record, replay, auto))


def cassette_given(record: Path | None, replay: Path | None, auto: Path | None) -> CassetteSpec | None:
    from youbencha.spec.gateway import CassetteSpec

    modes: dict[CassetteMode, Path | None] = {"record": record, "replay": replay, "auto": auto}
    given = [CassetteSpec(dir=str(path), mode=mode) for mode, path in modes.items() if path is not None]
    if len(given) > 1:
        exclude = "--record, --replay and --cassette exclude each other"
        raise YouBenchaError("OPTION_INVALID", exclude, hint="Choose one of them.")
    return given[0] if given else None
