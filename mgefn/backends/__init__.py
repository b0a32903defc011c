"""Backends: one literal table each, primitive -> kernel."""
