"""From a jaxpr to a program that runs: passes, memory plan, steps."""
