"""Search for the training sequences that a language model would generate, shard by shard."""
