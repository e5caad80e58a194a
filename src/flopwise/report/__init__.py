"""Reports: what a profile or an analysis says (``sheet``, ``commands``), and how it is written (``formats``, ``html``).

In come profiles and the results of analyses, out go text and bytes; ``report.Report`` is what lies between.
"""
