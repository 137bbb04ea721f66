"""One pass over a day's labels: work units, played by all models, added up."""
