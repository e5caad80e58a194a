"""A report before it is decided how it is written: columns and lines of values, and the text of a value."""

from typing import Literal, TypeAlias

#: Who reads a report: a person in a terminal, a person in a document, or a program, which gets every digit, all lines,
#: and a convention beside each figure.
Audience: TypeAlias = Literal["terminal", "document", "program"]
