"""The result tables: their columns, committed once, read back, asked in SQL."""
