"""The functions of the languages: names, signatures and the Spark SQL that each stands for."""
