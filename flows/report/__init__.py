"""The report: static pages that a person reads in the morning, and an auditor once a year.

`write_report` puts a warehouse's pages into a folder. Figures are read from the warehouse and never
computed anew; this package words and draws them.
"""

from flows.report.site import write_report

__all__ = ["write_report"]
