"""RocketMQ as a source: messages by queue and offset."""
