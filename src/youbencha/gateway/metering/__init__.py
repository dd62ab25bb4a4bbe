"""Count tokens from what is on the wire. Pure: changes nothing, and never raises."""
