"""Tables of MariaDB and their changes, from the binary log."""
