#!/bin/sh
# The Python of Spark's workers, without the archives that Spark puts first on its path: see workers.py.
kept=
IFS=:
for place in $PYTHONPATH; do
  case $place in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip | */jars/spark-core_*.jar) ;;
    *) kept="${kept:+$kept:}$place" ;;
  esac
done
PYTHONPATH=$kept exec "$RS_WORKER_PYTHON" "$@"
