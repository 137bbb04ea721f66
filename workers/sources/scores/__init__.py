"""Score tables: predictions that another system computed, joined to their labels by record."""
