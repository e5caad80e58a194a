"""``python -m flopwise``."""

from flopwise.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
