"""Attacks on tables whose query answers claim individual or bootstrap differential privacy."""
