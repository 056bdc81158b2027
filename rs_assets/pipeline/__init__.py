"""What a user writes and what runs it: stream -> runtime -> compile -> topology."""
