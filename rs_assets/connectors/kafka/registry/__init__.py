"""Schema registries: their address, Avro schemas of fields, and the schemas that a query has fetched."""
