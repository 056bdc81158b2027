"""What is known of a pipeline's rows when it is written: which fields each step has, and which errors are sure."""
