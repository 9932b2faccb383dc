"""Reads promptfoo's configuration into an `EvalSpec`. Nothing here runs code of a configuration or sends anything.

eval_file      the whole file: `read_eval`, `unsupported`
key_tables     every key that is known, with what it means or why it is refused; docs/reference/eval-files.md is made from it
matrix         columns, rows and cells, numbered as promptfoo numbers them
"""
