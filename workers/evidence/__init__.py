"""Statements and exact records signed and handed over: attestations, envelopes, bundles."""
