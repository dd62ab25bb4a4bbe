"""Benchmarks. Each figure has a reference value from the same run, because absolute times depend on the machine."""
