"""Files: written whole or not at all, folders that are replaced in one step, files of arrays, schemas, and the file of a
fit."""
