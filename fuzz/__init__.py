"""Fuzzing: every reader and every grammar is fed what nobody would write. See docs/contributing/fuzzing.md."""
