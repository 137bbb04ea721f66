"""Hand-over to people who may not read labels: it reads the warehouse, and nothing knows of it."""
