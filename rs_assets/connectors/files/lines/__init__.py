"""Lines of growing files: which file is which, what is new in it, and reading it; knows nothing of Spark.

A *split* is one incarnation of one file. Its identity is device, inode and a hash of the bytes consumed first, so a
renamed file goes on under its split, and a truncated or replaced one begins a new one. A *plan* turns one set of
offsets into the next; a `LineRange` is what lies between two plans in one split; `read_range` gives it as Arrow
batches, or raises if the file is not what was planned.
"""
