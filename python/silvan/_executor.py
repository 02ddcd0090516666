"""The default executor of runs.

This module imports no other module, so that commands can import it without delay.
"""

#: Default executor of `sweep`, `tune` and `fabric.study`. The simulator releases the GIL, so threads simulate
#: as fast as processes. Threads also start faster, and scripts need no `if __name__ == "__main__"`. Processes
#: isolate runs from each other: if the system kills one, its run is reported as failed, and the others
#: continue.
DEFAULT_EXECUTOR = "threads"
