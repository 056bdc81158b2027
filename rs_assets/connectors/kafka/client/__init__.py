"""The Kafka client that sources, sinks and shuffles share: connections and cluster queries."""
