"""OpenTelemetry: a span for each unit and each attempt, and the metrics of its conventions for generative AI. The extra `otel`.

request_facts  what a request and an answer say about a model call
genai_names    the names of attributes and metrics, in the two versions of the conventions
route_facts    what is known of a route: its provider, model and address
unit_spans     follows the attempts of a run (`engine.attempt_tracer`)
genai_metrics  the metrics
exporting      the SDK and its exporters, set up and shut down

Nothing here is imported unless tracing is switched on; `exporting` alone imports the SDK at once.
"""
