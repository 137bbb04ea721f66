"""One day's labels: shards of files, read once, validated, digested."""
