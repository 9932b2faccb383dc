"""How each API is called: what its requests and responses look like, and how its streams are put together. Pure.

dialect             the contract of a dialect, and which one belongs to a kind
openai, anthropic, azure, gemini, bedrock   the dialects
addresses           a configured address and a row's path → a URL
sigv4               AWS's signature
sse                 server-sent events → events, and the answer that grows from them
lenient_json        JSON as providers really send it
answer_errors       why an answer cannot be used
delta_merge         deltas of a stream → the object that the unstreamed call gives; part_counter: how many parts it may have
structured_output   how each API is asked for JSON that fits a schema
"""
