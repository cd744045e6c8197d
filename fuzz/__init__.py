"""Damaged and hostile files: written by the library itself, then spoiled in ways that can be told again; and sound ones with a
hostile meaning (`hostile.py`), which must be refused for what they are, without running, showing or filling anything.

`python -m fuzz --seconds 600` (or `make fuzz`) spoils files at random until the time is over. Whatever a file holds, the library
must read it or refuse it in one line: no traceback, no crash, no hang, no gigabytes. What breaks that is printed with the line
that shows it again.
"""
