"""What a provider sent → facts about limits: `hints.understand`. Pure: the present is an argument, and nothing is logged.

hints               a response, an exception or a program's output → `Facts`: a kind, and a hint for the lane
profile, profiles   what is known about each provider, as data
limit_headers       rate-limit headers → reports; ietf_headers: those of the IETF draft
error_bodies        an error's body → message, codes, status, waits; error_texts: the same for an exception's text
agent_events        the structured output of agent CLIs → how the run ended
error_kinds         statuses, codes and sentences → a kind
message_limits      the sentences of an error message → which limit, how much of it, how long to wait
durations, instants, clock_times   lengths of time, points in time and times of day, as providers write them
exception_outcome   an exception → an outcome; exception_response: the HTTP response that an exception carries
limit_detection     whether an exception, a result or an error text reports a rate limit; limit_text: the same for plain
                    words; false_positives: the same words where no limit is reported
"""
