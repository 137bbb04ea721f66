"""One audit, from the lake to a record; and whether a record is still true."""
