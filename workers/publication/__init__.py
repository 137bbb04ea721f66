"""What may leave the lake's side: statements that are private for labels, their key and ledger."""
