"""The sink family: writers that make a batch visible once, however often it is computed."""
