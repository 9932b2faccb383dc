"""Lanes under other people's HTTP clients: each request waits for its lane, is sent by its caller, and teaches the lane.

clients          `headway.httpx_client` and `headway.httpx_transport`
permits          `headway.Lane`: a lane for code that makes its calls itself
lane_registry    the lanes of this process, shared by all clients; the background loop that serves them
exchange         one request through its lane: every decision of the two transports, without their I/O
async_transport  the transport for httpx's asynchronous clients
sync_transport   the transport for its synchronous clients
tickets          one request's place in its lane: wait for a start, report the outcome
request_info     a request → its lane and its size
response_reader  a response → an outcome for the lane
client_settings  limits, retries and lane names of a client
response_bodies  response bodies: held back, decompressed, put back
origins          which origin a key may be sent to
"""
