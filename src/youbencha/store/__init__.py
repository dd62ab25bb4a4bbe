"""Results on disk: their names and models, finding, reading and writing them."""
