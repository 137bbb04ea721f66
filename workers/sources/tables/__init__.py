"""Tables of days: their files and rows, and what the settings and the table's log say of them."""
