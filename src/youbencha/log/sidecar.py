"""The metrics sidecar of the Thunderdome: what a trial used, in one small file beside its results."""

SIDECAR = ".thunderdome-metrics.json"
