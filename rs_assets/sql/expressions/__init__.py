"""SQL expressions: rules that compile trees to Spark SQL with Flink's meaning."""
