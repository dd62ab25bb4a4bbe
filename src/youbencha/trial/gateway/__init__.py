"""A trial's way to its model: whether there is a gateway, what it is told, and what came of it."""

from youbencha.trial.gateway.deciding import GatewayOptions, GatewayPlan, decide

__all__ = ["GatewayOptions", "GatewayPlan", "decide"]
