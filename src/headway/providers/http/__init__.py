"""One attempt over HTTP.

http_adapter  sends a request once, and turns the result into an `Answer`
http_settings what all requests share: address, key, headers, paths
connections   connections to one host, and a POST over one of them
opening       opens connections ahead of the requests that need them
bodies        what a body is where that is not obvious
body_reader   reads bodies and streams into memory, within ceilings
timeout       the timeout of an attempt
error_text    network errors and unusual statuses, in words that say what to check
"""
