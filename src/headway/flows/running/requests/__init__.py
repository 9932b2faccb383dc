"""What a unit sends, and which answers it accepts.

unit_requests  the request of each unit; prompt_text: its prompt
tool_programs  tools as providers
answer_check   whether an answer fits the schema and the state
"""
