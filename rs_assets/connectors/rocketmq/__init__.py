"""RocketMQ as a source."""
