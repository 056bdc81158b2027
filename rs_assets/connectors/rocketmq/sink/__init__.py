"""RocketMQ as a sink: at least once, or exactly once by reading back what a batch has already sent."""
