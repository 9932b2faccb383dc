"""The pure core: what may start when.

Nothing in this package reads a clock, touches the world, logs or draws a random number. Time is an
argument, events go in, commands come out; so the same code runs the real work, the simulator and the
property tests.
"""
