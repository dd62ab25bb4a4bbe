"""Intervals, comparisons and confidence sequences. All functions are pure."""
