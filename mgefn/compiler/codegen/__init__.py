"""Native code: the text of LLVM functions, and the functions of mathematics in it."""
