"""Values, the current interpreter, primitives, the IR and the backend registry."""
