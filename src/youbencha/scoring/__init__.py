"""Score a result: parse what tests, linters and coverage tools report, and combine it. All functions are pure."""
