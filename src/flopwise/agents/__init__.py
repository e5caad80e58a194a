"""flopwise for agents: a read-only server of the Model Context Protocol.

Comes in: the name of a tool and its arguments as plain values. Goes out: the JSON document that the command of the same
name writes.
"""
