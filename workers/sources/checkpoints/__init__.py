"""Checkpoints that score the day's rows here, in the lake or where training writes them."""
