"""One module a subcommand, each with `add_arguments(parser)` and `main(arguments)`."""
