"""The report: static pages that a person reads in the morning, and an auditor once a year.

`write_report` puts a warehouse's pages into a folder. Figures are read from the warehouse and never
computed anew; this package words and draws them. `write_public_report` makes pages of public
statements alone, for a wider audience.
"""

from flows.report.public_site import write_public_report
from flows.report.site import write_report

__all__ = ["write_public_report", "write_report"]
