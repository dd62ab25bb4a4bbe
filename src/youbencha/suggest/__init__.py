"""Suggest a test case from an agent's work: collect facts, then let an agent extend a draft made from them."""
