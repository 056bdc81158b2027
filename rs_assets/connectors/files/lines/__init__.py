"""Lines of growing files: identifies files, plans new lines and reads them; independent of Spark.

A *split* is one incarnation of one file. Its identity is device, inode and a hash of its first bytes and of the last
ones that were read. A renamed file therefore continues its split, and a truncated or replaced one begins a new split. A
*plan* turns one set of offsets into the next. A `LineRange` lies between two plans in one split. `read_range` reads it
as Arrow batches, or raises if the file is not what was planned.
"""
