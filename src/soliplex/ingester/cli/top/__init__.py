"""`si-cli top`: what goes on, in a terminal, as it goes.

top_command.py   arguments in; one frame for scripts, or frames until somebody leaves
frame.py         an overview as lines that fit a terminal
pressed_keys.py  the keys that are pressed meanwhile
"""
