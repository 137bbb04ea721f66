"""For readers new to privaudit: the demo, guarantees in words, data to try."""
