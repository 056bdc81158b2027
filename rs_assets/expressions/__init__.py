"""The small languages: functions, conditions and scripts, each compiled to Spark SQL."""
