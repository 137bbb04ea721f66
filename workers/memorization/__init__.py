"""Which training sequences a language model would generate: found shard by shard."""
