"""The version of flopwise, for the package, its reports and the build."""

__version__ = "0.1.0"
