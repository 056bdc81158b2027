"""What errors of sinks advise, done to the letter: then the batch is written."""
