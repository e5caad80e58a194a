"""The pages of ``flopwise llm``: of a request, and of a training step."""
