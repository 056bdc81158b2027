"""The profile `lean`: what is set on a machine of one core and 1 GiB, where memory counts more than speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HEAP: Final = "512m"
_OPTIONS: Final = (
    # The single-threaded collector needs the least memory besides the heap.
    "-XX:+UseSerialGC",
    # By default Java starts with a heap of a 64th of the machine's memory, whatever the limit of the heap.
    "-Xms64m",
    # Heap that is no longer needed is given back.
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=30",
    # The first compiler alone: the second one needs memory for its work, and code that counts for it.
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=128m",
)
JAVA: Final = " ".join(_OPTIONS)
SETTINGS: Final[Mapping[str, str]] = {
    # All state stores of a process share one cache and one budget of write buffers.
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "64",
}
# Each thread of the JVM may get its own malloc arena; glibc reads this when the JVM starts.
ENVIRONMENT: Final[Mapping[str, str]] = {"MALLOC_ARENA_MAX": "2"}
