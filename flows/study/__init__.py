"""Studies: figures and tables that are computed anew and written as files, one module each."""
