"""Sets of rules: many conditions over one stream, evaluated together for each Arrow batch."""
