"""Statements signed and handed over: attestations, envelopes, the log of statements, bundles."""
