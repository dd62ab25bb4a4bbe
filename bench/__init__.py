"""Measurements. Each stands beside a yardstick from the same run: figures of a machine alone mean little."""
