"""The parts of ``flopwise.llm``: the program, a request, a training step and the devices."""
