"""From a topology to Spark queries: which steps share a query, and what compiling them needs."""
