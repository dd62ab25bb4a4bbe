"""Report what went through the gateway, and compare it with the agent's own count."""

from __future__ import annotations

from youbencha.gateway.budget import Account
from youbencha.gateway.keys import ModelTotals, VirtualKey
from youbencha.log.model import Usage, YouBenchaLog, usage_of
from youbencha.store.bundle import BudgetReport, CassetteReport, GatewayReport, ModelUse, UsageDifference
from youbencha.trial.gateway_plan import GatewayPlan
from youbencha.usage import Tokens

_TOLERANCE = 100
"""Tokens: some agents count tokens themselves, and not exactly as the provider does."""

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")


def usage_in(totals: ModelTotals) -> Usage:
    """The usage: 0 without a request. A missing price makes the cost unknown."""
    if totals.requests == 0:
        return usage_of(Tokens(0, 0, 0, 0), 0.0, partial=False, cost_source="gateway")
    cost = None if totals.unpriced or totals.cost_usd is None else float(totals.cost_usd)
    return usage_of(totals.tokens, cost, partial=totals.partial, cost_source="gateway")


def report_of(plan: GatewayPlan, key: VirtualKey, *, ledger: str, prices: str) -> GatewayReport:
    totals, calls = key.totals, key.witness.record()
    return GatewayReport(
        type=plan.type,
        ledger=ledger,
        requests=totals.requests,
        failed=totals.failed,
        rate_limited=totals.rate_limited,
        refused=totals.refused,
        provider_wait_ms=round(totals.provider_wait_s * 1000),
        circuit_opened=totals.circuit_refusals > 0,
        provider_failure=calls.failure,
        provider_silent_ms=calls.silent_ms,
        ended_in_tool=calls.in_tool,
        unusable_model=key.witness.unusable_model(),
        unpriced=totals.no_price,
        usage=usage_in(totals.total),
        prices=prices,
        paid_usd=None if totals.paid_usd is None else float(totals.paid_usd),
        models={
            name: ModelUse(requests=of_model.requests, usage=usage_in(of_model))
            for name, of_model in sorted(totals.models.items())
        },
        budget=_budget(key),
        cassette=_cassette(plan, key),
    )


def reconciled(log: YouBenchaLog, report: GatewayReport) -> tuple[YouBenchaLog, GatewayReport]:
    """Put the gateway's count into the log, unless it is 0 and the agent's is not, and the agent's into the report."""
    log = log.without_claims(("model", "usage"))
    difference = _difference(report.usage, log.usage)
    compared = report.model_copy(update={"reported": log.usage, "difference": difference})
    model = log.model_info
    if model.name == "unknown" and (name := main_model(report)):
        model = model.model_copy(update={"name": name})
    usage = log.usage if outside_gateway(report.usage, log.usage) else report.usage
    return log.model_copy(update={"usage": usage, "model_info": model}), compared


def outside_gateway(metered: Usage | None, reported: Usage | None) -> bool:
    """Whether the agent reports tokens, and none went through the gateway: its calls went elsewhere."""
    return metered is not None and not any(metered.tokens) and reported is not None and any(reported.tokens)


def tokens_outside_gateway(difference: UsageDifference | None) -> int:
    """Return how many tokens the agent reports beyond those that went through the gateway."""
    counts = [] if difference is None else [difference.input_tokens, difference.output_tokens]
    beyond = sum(-count for count in counts if count is not None and count < 0)
    return beyond if beyond > _TOLERANCE else 0


def main_model(report: GatewayReport) -> str | None:
    """Return the model with the most output: agents also use smaller models for side requests."""
    written = {name: use.usage.output_tokens or 0 for name, use in report.models.items()}
    return max(written, key=lambda name: written[name], default=None)


def _difference(metered: Usage | None, reported: Usage | None) -> UsageDifference | None:
    if metered is None or reported is None:
        return None
    counts = {name: _less(getattr(metered, name), getattr(reported, name)) for name in _COUNTS}
    cost = None
    if metered.cost_usd is not None and reported.cost_usd is not None:
        cost = round(metered.cost_usd - reported.cost_usd, 10)
    return UsageDifference(**counts, cost_usd=cost)


def _less(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def _budget(key: VirtualKey) -> BudgetReport | None:
    account = key.account
    capped = [each for each in account.with_parents() if _is_capped(each)]
    if not capped:
        return None
    usd = min((each.caps.usd for each in capped if each.caps.usd is not None), default=None)
    tokens = min((each.caps.tokens for each in capped if each.caps.tokens is not None), default=None)
    return BudgetReport(
        cap_usd=None if usd is None else float(usd),
        cap_tokens=tokens,
        spent_usd=float(account.spent_usd),
        spent_tokens=account.spent_tokens,
        unsure_usd=float(account.unseen_usd),
        unsure_tokens=account.unseen_tokens,
        exceeded=account.exceeded,
        reason=key.totals.refusal,
        refused_by=key.totals.refused_by,
    )


def _is_capped(account: Account) -> bool:
    return any(value is not None for value in (*account.caps, *account.per_call))


def _cassette(plan: GatewayPlan, key: VirtualKey) -> CassetteReport | None:
    if plan.spec.cassette is None or key.cassette is None:
        return None
    return CassetteReport(
        dir=str(plan.cassette_dir),
        mode=plan.spec.cassette.mode,
        replayed=key.totals.replayed,
        recorded=key.cassette.recorded,
        unmatched=key.totals.unmatched,
    )
