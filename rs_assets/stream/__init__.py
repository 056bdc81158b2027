"""The fluent API: what a user writes. It only collects nodes; nothing here touches Spark."""
