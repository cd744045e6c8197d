"""Files: written whole or not at all, folders that are replaced in one step, schemas, and the file of a fit."""
