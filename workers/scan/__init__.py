"""One pass over a day's labels: units of work, played by all models, added up."""
