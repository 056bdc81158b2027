"""From a topology to Spark queries: which steps share a query, and the context for compiling them."""
