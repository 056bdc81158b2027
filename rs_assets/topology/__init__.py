"""A pipeline as frozen data: nodes that check themselves when they are made and know nothing of Spark."""
