"""The report: one self-contained page that a person reads in the morning.

`render` turns current audit records into HTML, `write_report` puts it into a folder. Figures are
read from the warehouse's rows and never computed anew; this package words and draws them.
"""

from flows.report.page import render, write_report

__all__ = ["render", "write_report"]
