"""Reading a file of rows: what it is decide its first bytes, not its name."""

from ppkit.reading.tables import UNREADABLE, Rows, members, named, read_rows

__all__ = ["UNREADABLE", "Rows", "members", "named", "read_rows"]
