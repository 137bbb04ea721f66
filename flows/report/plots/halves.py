"""The size of the plots that stand side by side: training and control, proxy and target."""

from flows.report.canvas import Size

HALF = Size(name="half", width=326, height=190, left=40, right=14, top=10, bottom=44)
