"""The only package that chooses concrete classes: settings, keys and a store in; plans, runs and forecasts out.

submission       an input or an earlier job → a job that is locked and ready
run_plan         settings, keys and a job's routes → the plan of a run
run_execution    carries out a run: signal handlers, displays, the output file
output_observer  writes the output file while a job runs
store_access     opens the store; folder and lock of a job
builders         makes the adapters of provider kinds
model_prices     what models cost, from the settings or the price list
budget_reserves  what a cap sets aside for each request
usage_history    the usage of earlier units of the same kind
remaining_cost   the likely cost of the rest of a job
job_forecast     the forecast of a job
predictions      keeps a forecast for a comparison at the end of its run
"""
