"""SQL expressions: rules that turn the parser's trees into Spark SQL with Flink's meaning."""
