"""The plots, one module each: described once for a size, drawn with the rows of one model."""
