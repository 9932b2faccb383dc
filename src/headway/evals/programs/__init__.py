"""Code of an eval file, and its providers that are programs or plain HTTP: their settings, their requests, their answers.

program_providers  an id of the file (`exec:…`, `python:…`, `https://…`, `echo`) → the settings of a provider
http_keys          the keys of an HTTP provider
program_requests   a prompt → the request for such a provider
code_providers     the providers that run assertions and transforms
code_requests      an assertion or a transform → its request
answers            what an answer of any of them says
"""
