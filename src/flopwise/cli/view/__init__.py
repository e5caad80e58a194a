"""The page on which files are dropped: what it may ask for, the answers, and the server of ``flopwise view``.

Comes in: a request, as the page sends it. Goes out: the page or the document that a command writes.
"""
