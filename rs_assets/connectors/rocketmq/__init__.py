"""RocketMQ as a source and a sink."""
