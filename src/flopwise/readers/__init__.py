"""File or object -> Graph. A framework is imported only by the reader that needs it, when it reads."""
