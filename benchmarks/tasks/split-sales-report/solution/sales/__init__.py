"""Sales per region."""
