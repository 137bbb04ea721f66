"""Score tables: predictions that somebody else computed, joined to their labels by record."""
