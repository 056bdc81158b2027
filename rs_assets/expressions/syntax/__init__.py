"""What conditions and scripts have in common: places in a text, values, calls."""
