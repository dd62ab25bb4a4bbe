#!/bin/sh
# An agent that does nothing: what a run costs without one.
exit 0
