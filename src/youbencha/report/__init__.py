"""Results as people and other programs read them."""
