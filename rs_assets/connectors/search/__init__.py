"""OpenSearch and Elasticsearch as sinks."""
