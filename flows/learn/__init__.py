"""For readers new to privaudit: the demo, and guarantees in words."""
