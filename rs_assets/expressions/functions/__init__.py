"""The functions of the languages: names, signatures and the Spark SQL of each."""
