"""The commands of `privaudit`, one module per group; `flows.cli` puts them together.

Each module has an `app`, which `flows.cli` adds. What a command needs is imported when it runs, so
that `privaudit --help` and the shell's completion stay quick. `options` holds the options that
commands share, `printing` how they print.
"""
