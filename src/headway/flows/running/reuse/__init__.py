"""Answers that are kept: from earlier jobs of the same flow, and from the cache.

unit_key       PURE: the key of a unit, in named parts; key_context and tool_files: what it needs besides the flow
answer_reuse   which new units have an answer already; reuse_choice: what the user wants of it
flow_changes   PURE: what a changed flow runs again
key_report     `headway cache why`; key_differences compares the parts of two keys
"""
