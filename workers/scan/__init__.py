"""One pass over a day's labels: work units, scored by all models, added up."""
