"""The dialects of APIs: the form of requests and responses, and the assembly of streams. Pure.

dialect             the contract of a dialect, and which one belongs to a kind
openai, anthropic, azure, gemini, bedrock   the dialects
addresses           a configured address and a row's path → a URL
sigv4               AWS's signature
sse                 server-sent events → events, and the answer that is assembled from them
lenient_json        JSON as providers really send it
answer_errors       why an answer cannot be used
delta_merge         deltas of a stream → the object of the unstreamed call; part_counter: the limit of its parts
structured_output   how each API is asked for JSON that fits a schema
"""
