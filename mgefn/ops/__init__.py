"""Operations: each family's public functions beside their primitives and rules."""
