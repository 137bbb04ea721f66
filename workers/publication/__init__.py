"""Public statements that may leave the lake: private for labels, with their key and ledger."""
