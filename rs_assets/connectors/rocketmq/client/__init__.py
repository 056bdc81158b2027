"""A client of RocketMQ: the remoting protocol of name servers and brokers, in Python."""
