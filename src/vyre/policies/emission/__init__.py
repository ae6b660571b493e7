"""What an emitter may leave out or do more cheaply: pure functions of a program, none of which changes a byte."""
