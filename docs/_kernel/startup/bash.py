"""`%%bash` for the build: as IPython's own, but the first command that fails ends it, and the output comes in one piece."""

import os
import subprocess

from IPython.core.magic import register_cell_magic


@register_cell_magic
def bash(line: str, cell: str) -> None:
    plain = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    done = subprocess.run(["bash", "-ec", cell], stdout=-1, stderr=subprocess.STDOUT, text=True, env=plain, check=False)
    print(done.stdout, end="")
    done.check_returncode()
