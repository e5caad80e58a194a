"""The version of flopwise, for the package, its reports and the build."""

__version__ = "0.2.0"
