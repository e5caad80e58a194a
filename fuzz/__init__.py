"""Fuzzing: every reader and every grammar is fed what nobody would write. See docs/fuzzing.md."""
