"""What runs every night, and on demand: the flows, and how they end."""
