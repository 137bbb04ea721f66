"""For whoever gets to know privaudit: the demo, guarantees in words, data to try."""
