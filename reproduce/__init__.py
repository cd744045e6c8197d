"""The papers' figures and tables, made again by unmix: one small module a result, `python -m reproduce` runs them."""
