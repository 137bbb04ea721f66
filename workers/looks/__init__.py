"""What a pass looks at beside the game: one file for each look, and one list of them."""
