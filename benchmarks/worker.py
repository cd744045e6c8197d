"""The other end of `measure.in_fresh_process`: read arguments from stdin, call the task, write the answer to a file."""

import json
import sys
from importlib import import_module
from pathlib import Path


def main(task: str, answer: str) -> None:
    module, function = task.split(":")
    arguments = json.load(sys.stdin)
    try:
        content = {"result": getattr(import_module(module), function)(**arguments)}
    except Exception as error:  # whatever a library raises becomes the printed reason
        content = {"failure": f"{type(error).__name__}: {error}"}
    Path(answer).write_text(json.dumps(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
