"""`si-cli top`: what goes on, in a terminal, as it goes.

command.py   arguments in; one frame for scripts, or frames until somebody leaves
frame.py     an overview as lines that fit a terminal
keys.py      the keys that are pressed meanwhile
"""
