"""The report: static pages that a person reads in the morning, and an auditor once a year.

`site.write_report` puts a warehouse's pages into a folder. Figures are read from the warehouse and
never computed anew; this package words and draws them.
"""
