"""Data for demo and studies, brought into the lake."""
