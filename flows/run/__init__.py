"""Flows that run every night, and on demand, and their ends."""
