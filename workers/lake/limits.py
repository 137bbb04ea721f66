"""The largest inputs that are read: a hostile file ends as a record, not in want of memory."""

MANIFEST_BYTES = 4 << 20
"""A manifest of some 50,000 features."""
CHECKPOINT_BYTES = 1 << 30
"""A model file; it is held in memory, and once more by every Ray worker."""
MODEL_SECONDS = 120
"""Time that the first reading of a model file may take."""
MODEL_ROW_SECONDS = 0.01
"""Processor time that scoring one trial row may take: a million rows are 3 hours of that."""
MODEL_MEMORY_BYTES = 8 << 30
"""Address space of the process that first reads it."""
SHARD_ROWS = 1 << 24
"""Rows of a row group; writers' defaults are one million or fewer."""
SHARD_BYTES = 4 << 30
"""A row group's asked columns, decoded."""
SEQUENCE_BYTES = 1 << 30
"""A table of sequences, unpacked; text that rows share is held, and counted, once. Reading a table
may take 2.5 times as much memory."""
PROBABILITIES = 1 << 28
"""Rows of a row group times classes: 2 GiB of probabilities for each model."""
REASON_CHARACTERS = 2_000
"""A record's reason; sentences quote what the input said."""
ROW_GROUPS = 10_000
"""Row groups of one file: each costs some 15 ms of processor time, however few its rows are."""
FOOTER_BYTES = 256 << 20
"""A Parquet footer, as of 100,000 columns in a dozen row groups."""
FOOTER_SECONDS = 60
"""Time that reading a Parquet footer may take."""
FOOTER_MEMORY_BYTES = 2 << 30
"""Memory that it may take."""
ACCOUNTING_SECONDS = 60
"""Time that a declared mechanism's accounting may take."""
ACCOUNTING_MEMORY_BYTES = 2 << 30
"""Memory that it may take."""
TABLE_SECONDS = 120
"""Time that a question about a table's log or catalogue may take."""
TABLE_MEMORY_BYTES = 4 << 30
"""Address space that it may take: deltalake starts up to 512 threads, which have 3 GiB of it."""
TABLE_FILE_BYTES = 512 << 20
"""One file of an Iceberg table's metadata."""
CATALOG_BYTES = 256 << 20
"""One answer of an Iceberg catalogue: the metadata of some 100,000 snapshots."""
MLMODEL_SECONDS = 20
"""Time that reading a registry's MLmodel may take."""
MLMODEL_MEMORY_BYTES = 512 << 20
"""Memory that it may take."""
DATABASE_SECONDS = 600
"""Time that one statement of a database may take."""
CONNECT_SECONDS = 20
"""Time that connecting to a database may take."""
DATABASE_BATCH_ROWS = 1 << 12
"""Rows of a query that are fetched, and held in memory, at once."""
QUERY_BYTES = 64 << 30
"""All rows of a query: they lie on the disk of the warehouse, packed, until the pass is over."""
JOIN_BYTES = 4 << 30
"""Rows of the tables that one worker joins: their join takes some 13 GiB of its memory."""
CSV_BYTES = 512 << 20
"""A CSV file, unpacked: some 10 million rows of five columns."""
CSV_ROW_BYTES = 16 << 20
"""Bytes of it that are parsed at once: every row of as many is read, and none of twice as many, as
a row may cross one border of these and not two."""
CSV_SECONDS = 120
"""Time that reading one may take."""
CSV_MEMORY_BYTES = 4 << 30
"""Memory that it may take."""
