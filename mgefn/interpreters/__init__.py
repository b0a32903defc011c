"""The ways to read a program, one file each."""
