"""What a run leaves: its results and its events.

results        the results of a job; results_file: the file
event_record   events in the store
"""
