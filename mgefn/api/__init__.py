"""The transformations: check arguments, flatten pytrees, call an interpreter."""
