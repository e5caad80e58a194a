"""The parts of ``flopwise.llm`` (program, media, request, training step, devices), and diffusion pipelines."""
